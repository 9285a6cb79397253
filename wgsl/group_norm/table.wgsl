// The scales and shifts that normalise: table[b, 0] = gain / deviation of the group and
// table[b, 1] = bias - mean of the group * that.
// Bindings: moments f32 [b, strands, 2 * slices * 4], gain and bias [C], table f32 [b, 2, C] (written).
// One workgroup a group of channels of a picture. The parts are as long as one another but for the
// last strand; the means are averaged first, then the deviations from that added up.

const LANES: u32 = {{ lanes }}u;
const PER: u32 = {{ per_group }}u; // channels of a group

var<workgroup> partial: array<f32, {{ lanes }}>;

fn weight(strand: u32) -> f32 {
    return select({{ run }}.0, {{ last_run }}.0, strand == {{ strands - 1 }}u);
}

fn total(index: u32, v: f32) -> f32 {
    workgroupBarrier();
    partial[index] = v;
    workgroupBarrier();
{% set half = namespace(size=lanes // 2) %}
{% for _ in range(10) if half.size %}
    if (index < {{ half.size }}u) {
        partial[index] += partial[index + {{ half.size }}u];
    }
    workgroupBarrier();
{% set half.size = half.size // 2 %}
{% endfor %}
    return partial[0];
}

@compute @workgroup_size({{ lanes }})
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) index: u32) {
    let flat = id.x;
    let b = flat / {{ groups }}u;
    let first = flat % {{ groups }}u * PER;
    let rows = b * {{ strands }}u;

    var sum = 0.0;
    for (var i = index; i < PER * {{ strands }}u; i += LANES) {
        let strand = i / PER;
        sum = fma(moments_scalar(rows + strand, first + i % PER), weight(strand), sum);
    }
    let mean = total(index, sum) * {{ 1.0 / (per_group * pixels) }};

    sum = 0.0;
    for (var i = index; i < PER * {{ strands }}u; i += LANES) {
        let strand = i / PER;
        let c = first + i % PER;
        let off = moments_scalar(rows + strand, c) - mean;
        sum += fma(off * off, weight(strand), moments_scalar(rows + strand, c + {{ slices * 4 }}u));
    }
    let factor = inverseSqrt(total(index, sum) * {{ 1.0 / (per_group * pixels) }} + {{ eps }});

    for (var i = index; i < PER; i += LANES) {
        let c = first + i;
        let scale = gain_scalar(0u, c) * factor;
        table[b * {{ 2 * slices * 4 }}u + c] = scale;
        table[(b * 2u + 1u) * {{ slices * 4 }}u + c] = bias_scalar(0u, c) - mean * scale;
    }
}
