// RMS norm of every row: y = x * gain / sqrt(mean(x * x) + eps).
// Bindings: x [T, C], gain [C], y [T, C] (written). LANES invocations share a row and ROWS rows
// share a workgroup; the padding of the last slice is neither counted nor trusted. With `held`, that
// many slices stay in registers: a row is read once, and its reads are all on their way at once.

const TOKENS: u32 = {{ tokens }}u;
const SLICES: u32 = {{ slices }}u;
const LANES: u32 = {{ lanes }}u;
const ROWS: u32 = {{ rows }}u;

{% if lanes > subgroup and lanes > 1 %}
var<workgroup> partial: array<f32, {{ lanes * rows // (subgroup or 1) }}>;

{% endif %}
{% if channels % 4 %}
fn masked(s: u32, v: vec4<f32>) -> vec4<f32> {
    let pad = vec4<f32>({% for c in range(4) %}{{ 1.0 if c < channels % 4 else 0.0 }}{{ ", " if c < 3 }}{% endfor %});
    return select(v, v * pad, s == SLICES - 1u);
}
{% endif %}

@compute @workgroup_size({{ lanes * rows }})
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) index: u32,
) {
    let lane = index % LANES;
    let wanted = (group.x + group.y * {{ grid_x }}u) * ROWS + index / LANES;
    let row = min(wanted, TOKENS - 1u);  // all invocations take part in the sum
    var sums = vec4<f32>(0.0);
{% for i in range(held) %}
    let s{{ i }} = lane + {{ i * lanes }}u;
{% set value = "masked(s%d, x_at(row, s%d))" % (i, i) if channels % 4 else "x_at(row, s%d)" % i %}
{% if (i + 1) * lanes <= slices %}
    let v{{ i }} = {{ value }};
{% else %}
    var v{{ i }} = vec4<f32>(0.0);
    if (s{{ i }} < SLICES) {
        v{{ i }} = {{ value }};
    }
{% endif %}
{% endfor %}
{% for i in range(held) %}
    sums = fma(v{{ i }}, v{{ i }}, sums);
{% endfor %}
{% if not held %}
    for (var s = lane; s < SLICES; s += LANES) {
        let v = {{ "masked(s, x_at(row, s))" if channels % 4 else "x_at(row, s)" }};
        sums = fma(v, v, sums);
    }
{% endif %}
    var sum = (sums.x + sums.y) + (sums.z + sums.w);
{% if subgroup and lanes >= subgroup %}
    sum = subgroupAdd(sum);
{% endif %}
{% if lanes > subgroup and lanes > 1 %}
{% if subgroup %}
    if (index % {{ subgroup }}u == 0u) {
        partial[index / {{ subgroup }}u] = sum;
    }
    workgroupBarrier();
    sum = 0.0;
    for (var i = 0u; i < {{ lanes // subgroup }}u; i++) {
        sum += partial[index / LANES * {{ lanes // subgroup }}u + i];
    }
{% else %}
    partial[index] = sum;
    workgroupBarrier();
{% set step = namespace(size=lanes // 2) %}
{% for _ in range(10) if step.size %}
    if (lane < {{ step.size }}u) {
        partial[index] += partial[index + {{ step.size }}u];
    }
    workgroupBarrier();
{% set step.size = step.size // 2 %}
{% endfor %}
    sum = partial[index - lane];
{% endif %}
{% endif %}
    let factor = inverseSqrt(sum * {{ 1.0 / channels }} + {{ eps }});
    if (wanted < TOKENS) {
{% for i in range(held) %}
{% if (i + 1) * lanes <= slices %}
        y_put(row, s{{ i }}, v{{ i }} * gain_at(0u, s{{ i }}) * factor);
{% else %}
        if (s{{ i }} < SLICES) {
            y_put(row, s{{ i }}, v{{ i }} * gain_at(0u, s{{ i }}) * factor);
        }
{% endif %}
{% endfor %}
{% if not held %}
        for (var s = lane; s < SLICES; s += LANES) {
            y_put(row, s, x_at(row, s) * gain_at(0u, s) * factor);
        }
{% endif %}
    }
}
