// Attention of one token, second half, where subgroups have one known size. Bindings as in
// decode_merge.wgsl. One workgroup a head; ROWS invocations share a vector of channels.
// Every subgroup works out the weights of all splits, a split a lane, and hands them on by shuffles;
// nothing is waited for before the loads, so what lies in unused splits is read too, and left out.

{{ state_words }}
{% include "attention/span.wgsl" %}
const SLICES: u32 = {{ slices }}u;
const COLUMNS: u32 = {{ columns }}u;  // vectors at once
const ROWS: u32 = {{ rows }}u;
const LANES: u32 = {{ lanes }}u;  // of a subgroup
{% set steps = (splits + rows - 1) // rows %}
{% set runs = (splits + lanes - 1) // lanes %}

{% if rows > 1 %}
var<workgroup> halves: array<vec4<f32>, {{ rows * columns }}>;
{% endif %}

@compute @workgroup_size({{ threads }})
fn main(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(local_invocation_index) index: u32,
) {
    let base = id.x * SPLITS * (SLICES + 1u);
    let lane = index % LANES;
    let column = index % COLUMNS;
    let row = min(index / COLUMNS, ROWS - 1u);
{% for r in range(runs) %}
    let top{{ r }} = partials[base + min(lane + {{ r * lanes }}u, SPLITS - 1u) * (SLICES + 1u) + SLICES].xy;
{% endfor %}
{% macro load(first) %}
{% for j in range(steps) %}
        part{{ j }} = partials[base + min(row + {{ j * rows }}u, SPLITS - 1u) * (SLICES + 1u) + min({{ first }} + column, SLICES - 1u)];
{% endfor %}
{% endmacro %}
{% for j in range(steps) %}
    var part{{ j }}: vec4<f32>;
{% endfor %}
{{ load("0u") }}
    let used = span_of(state[POSITION]).used;
    var most = -1e9;
{% for r in range(runs) %}
    most = max(most, select(-1e9, top{{ r }}.x, lane + {{ r * lanes }}u < used));
{% endfor %}
    most = subgroupMax(most);
    var total = 0.0;
{% for r in range(runs) %}
    let weight{{ r }} = select(0.0, exp(max(top{{ r }}.x - most, -80.0)), lane + {{ r * lanes }}u < used);
    total += select(0.0, weight{{ r }} * top{{ r }}.y, lane + {{ r * lanes }}u < used);
{% endfor %}
    let scale = 1.0 / subgroupAdd(total);
{% for j in range(steps) %}
    let one{{ j }} = vec4<f32>(subgroupShuffle(weight{{ j * rows // lanes }}, {{ j * rows % lanes }}u + row) * scale);
{% endfor %}
{% for first in range(0, slices, columns) %}
    {
{% if first %}
{{ load("%du" % first) }}
{% endif %}
        var sum = vec4<f32>(0.0);
{% for j in range(steps) %}
        sum += select(vec4<f32>(0.0), one{{ j }} * part{{ j }}, row + {{ j * rows }}u < used);
{% endfor %}
{% if rows > 1 %}
        if (index < ROWS * COLUMNS) {
            halves[index] = sum;
        }
        workgroupBarrier();
        if (index < COLUMNS{% if first + columns > slices %} && {{ first }}u + column < SLICES{% endif %}) {
{% for other in range(1, rows) %}
            sum += halves[index + {{ other * columns }}u];
{% endfor %}
            o_put(0u, id.x * SLICES + {{ first }}u + column, sum);
        }
{% if not loop.last %}
        workgroupBarrier();
{% endif %}
{% else %}
        if (index < COLUMNS{% if first + columns > slices %} && {{ first }}u + column < SLICES{% endif %}) {
            o_put(0u, id.x * SLICES + {{ first }}u + column, sum);
        }
{% endif %}
    }
{% endfor %}
}
