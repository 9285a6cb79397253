// Rotation of one vector of four channels of a query or key head, after an optional RMS norm of the
// whole head. It needs the accessors of qkv, rope_freqs, q_gain and k_gain (those that are bound) and
// the constants HEADS (of queries; keys follow) and SLICES (vectors of a head).
{% set half = rope_dim // 2 %}
{% set aligned = half % 4 == 0 %}

{% if q_norm or k_norm %}
fn root_mean_square(token: u32, base: u32) -> f32 {
    var sums = vec4<f32>(0.0);
    for (var s = 0u; s < SLICES; s++) {
        let v = qkv_at(token, base + s);
        sums = fma(v, v, sums);
    }
    return inverseSqrt(dot(sums, vec4<f32>({{ 1.0 / (4 * slices) }})) + {{ eps }});
}
{% endif %}

// A vector of a query (head < HEADS) or key head, normalised where asked for.
fn element(token: u32, head: u32, s: u32, norm: f32) -> vec4<f32> {
    var v = qkv_at(token, head * SLICES + s);
{% if q_norm %}
    if (head < HEADS) {
        v *= q_gain_at(0u, s) * norm;
    }
{% endif %}
{% if k_norm %}
    if (head >= HEADS) {
        v *= k_gain_at(0u, s) * norm;
    }
{% endif %}
    return v;
}

{% if rope_dim %}
// Cosines and sines need a small argument: some GPUs are only exact within a turn. A turn is 201/32
// and a little: the first part is subtracted exactly, through a whole number, because a compiler
// with fast math would add the two parts up first.
fn within_a_turn(angle: vec4<f32>) -> vec4<f32> {
    let turns = vec4<i32>(round(angle * 0.15915494309189535));
    let rest = angle - vec4<f32>(turns * vec4<i32>(201)) * 0.03125;
    return rest - vec4<f32>(turns) * 0.0019353071795864769;
}

fn rotated(token: u32, head: u32, s: u32, norm: f32, position: f32) -> vec4<f32> {
    let own = element(token, head, s, norm);
    if (4u * s >= {{ rope_dim }}u) {
        return own;
    }
{% if mode == "normal" %}
    let f = vec2<f32>(rope_freqs_scalar(0u, 2u * s), rope_freqs_scalar(0u, min(2u * s + 1u, {{ half - 1 }}u)));
    let freqs = f.xxyy;
    let other = own.yxwz;
    let sign = vec4<f32>(-1.0, 1.0, -1.0, 1.0);
{% elif aligned %}
    let upper = s >= {{ half // 4 }}u;
    let partner = select(s + {{ half // 4 }}u, s - {{ half // 4 }}u, upper);
    let freqs = rope_freqs_at(0u, min(s, partner));
    let other = element(token, head, partner, norm);
    let sign = vec4<f32>(select(-1.0, 1.0, upper));
{% else %}
    var freqs: vec4<f32>;
    var other: vec4<f32>;
    var sign: vec4<f32>;
    for (var i = 0u; i < 4u; i++) {
        let c = min(4u * s + i, {{ rope_dim - 1 }}u);
        let upper = c >= {{ half }}u;
        let partner = select(c + {{ half }}u, c - {{ half }}u, upper);
        freqs[i] = rope_freqs_scalar(0u, min(c, partner));
        other[i] = element(token, head, partner >> 2u, norm)[partner & 3u];
        sign[i] = select(-1.0, 1.0, upper);
    }
{% endif %}
    let angle = within_a_turn(freqs * position);
    let turned = (own * cos(angle) + sign * other * sin(angle)) * {{ magnitude }};
{% if rope_dim % 4 %}
    let c = vec4<u32>(4u * s) + vec4<u32>(0u, 1u, 2u, 3u);
    return select(own, turned, c < vec4<u32>({{ rope_dim }}u));
{% else %}
    return turned;
{% endif %}
}
{% endif %}
