// Attention of one token, second half: the splits of each head weighed by their largest scores and
// added up.
// Bindings: partials [H][SPLITS][D / 4 + 1] vec4 (see decode_split.wgsl), state u32 [16],
// o [1, H D] (written). One workgroup a head; SUBS groups of LANES invocations share its splits.
// The weight of a split is worked out once, a split an invocation.

{{ state_words }}
{% include "attention/span.wgsl" %}
const SLICES: u32 = {{ slices }}u;
const LANES: u32 = {{ lanes }}u;
const SUBS: u32 = {{ subs }}u;

var<workgroup> heads: array<vec2<f32>, {{ splits }}>;
var<workgroup> weights: array<f32, {{ splits }}>;
{% if subs > 1 %}
var<workgroup> halves: array<vec4<f32>, {{ subs * lanes }}>;
{% endif %}

@compute @workgroup_size({{ lanes * subs }})
fn main(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(local_invocation_index) index: u32,
) {
    let used = span_of(state[POSITION]).used;
    let base = id.x * SPLITS * (SLICES + 1u);
    for (var i = index; i < used; i += {{ lanes * subs }}u) {
        heads[i] = partials[base + i * (SLICES + 1u) + SLICES].xy;
    }
    workgroupBarrier();
    var most = -1e9;
    for (var i = 0u; i < used; i++) {
        most = max(most, heads[i].x);
    }
    for (var i = index; i < used; i += {{ lanes * subs }}u) {
        weights[i] = exp(max(heads[i].x - most, -80.0));
    }
    workgroupBarrier();
    var total = 0.0;
    for (var i = 0u; i < used; i++) {
        total = fma(weights[i], heads[i].y, total);
    }
    let lane = index % LANES;
    let sub = index / LANES;
    for (var first = 0u; first < SLICES; first += LANES) {
        let s = min(first + lane, SLICES - 1u);
        var sum = vec4<f32>(0.0);
        for (var i = sub; i < used; i += SUBS) {
            sum += weights[i] * partials[base + i * (SLICES + 1u) + s];
        }
{% if subs > 1 %}
        halves[index] = sum;
        workgroupBarrier();
        if (sub == 0u) {
{% for other in range(1, subs) %}
            sum += halves[lane + {{ other * lanes }}u];
{% endfor %}
        }
        workgroupBarrier();
{% endif %}
        if (sub == 0u && first + lane < SLICES) {
            o_put(0u, id.x * SLICES + s, sum / total);
        }
    }
}
