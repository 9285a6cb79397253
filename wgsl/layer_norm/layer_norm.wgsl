// Layer norm of every row: y = (x - mean) / sqrt(variance + eps) * gain + bias.
// Bindings: x [T, C], gain and bias [C], y [T, C] (written). LANES invocations share a row and ROWS
// rows share a workgroup. Sums are of deviations from the row's first channel, so that a large mean
// costs no precision; the padding of the last slice is not counted.

const TOKENS: u32 = {{ tokens }}u;
const SLICES: u32 = {{ slices }}u;
const LANES: u32 = {{ lanes }}u;
const ROWS: u32 = {{ rows }}u;

{% if lanes > subgroup and lanes > 1 %}
var<workgroup> partial: array<vec2<f32>, {{ lanes * rows // (subgroup or 1) }}>;

{% endif %}
fn kept(s: u32, v: vec4<f32>) -> vec4<f32> {
{% if channels % 4 %}
    return select(vec4<f32>(0.0), v, vec4<u32>(4u * s) + vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>({{ channels }}u));
{% else %}
    return v;
{% endif %}
}

@compute @workgroup_size({{ lanes * rows }})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) index: u32) {
    let lane = index % LANES;
    let wanted = (group.x + group.y * {{ grid_x }}u) * ROWS + index / LANES;
    let row = min(wanted, TOKENS - 1u); // all invocations take part in the sums
    let first = x_at(row, 0u).x;
    var sums = vec4<f32>(0.0);
    var squares = vec4<f32>(0.0);
    for (var s = lane; s < SLICES; s += LANES) {
        let v = kept(s, x_at(row, s) - first);
        sums += v;
        squares = fma(v, v, squares);
    }
    var both = vec2<f32>((sums.x + sums.y) + (sums.z + sums.w), (squares.x + squares.y) + (squares.z + squares.w));
{% if subgroup and lanes >= subgroup %}
    both = subgroupAdd(both);
{% endif %}
{% if lanes > subgroup and lanes > 1 %}
{% if subgroup %}
    if (index % {{ subgroup }}u == 0u) {
        partial[index / {{ subgroup }}u] = both;
    }
    workgroupBarrier();
    both = vec2<f32>(0.0);
    for (var i = 0u; i < {{ lanes // subgroup }}u; i++) {
        both += partial[index / LANES * {{ lanes // subgroup }}u + i];
    }
{% else %}
    partial[index] = both;
    workgroupBarrier();
{% set step = namespace(size=lanes // 2) %}
{% for _ in range(10) if step.size %}
    if (lane < {{ step.size }}u) {
        partial[index] += partial[index + {{ step.size }}u];
    }
    workgroupBarrier();
{% set step.size = step.size // 2 %}
{% endfor %}
    both = partial[index - lane];
{% endif %}
{% endif %}
    let off = both.x * {{ 1.0 / channels }};
    let factor = inverseSqrt(max(both.y * {{ 1.0 / channels }} - off * off, 0.0) + {{ eps }});
    if (wanted < TOKENS) {
        for (var s = lane; s < SLICES; s += LANES) {
            let scale = gain_at(0u, s) * factor;
            y_put(row, s, kept(s, fma(x_at(row, s) - (first + off), scale, bias_at(0u, s))));
        }
    }
}
