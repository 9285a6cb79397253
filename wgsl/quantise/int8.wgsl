// Activations as signed bytes with one scale for each group of 32 channels, for int8 products.
// Bindings: x [T, C], y array<u32> [T, pitch], written: per row first the bytes in order, 8 words a
// group, then two f32 a group: its scale, and the sum of its quantised values (scale times bytes).
//
// LANES invocations share a group (8: by subgroup shuffles). The scale keeps 17 bits of its mantissa,
// rounded up, so that 3 * 2^22 times the scale is exact; see matmul/int8.wgsl.

{% set each = 8 // lanes %}
{% set loads_past_end = slices < 8 * groups %}
fn x_in(t: u32, s: u32) -> vec4<f32> {
{% if loads_past_end %}
    if (s >= {{ slices }}u) {
        return vec4<f32>(0.0);
    }
{% endif %}
{% if channels % 4 %}
    let kept = vec4<u32>(4u * s) + vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>({{ channels }}u);
    return select(vec4<f32>(0.0), x_at(t, s), kept);
{% else %}
    return x_at(t, s);
{% endif %}
}

@compute @workgroup_size({{ threads }})
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) index: u32) {
    let wanted = (id.x{{ " + id.y * %du" % grid_x if grid_y > 1 }}) * {{ threads // lanes }}u + index / {{ lanes }}u;
    let at = min(wanted, {{ tokens * groups - 1 }}u); // every lane takes part in the shuffles
    let token = at / {{ groups }}u;
    let g = at % {{ groups }}u;
    let lane = index % {{ lanes }}u;
{% for j in range(each) %}
    let v_{{ j }} = x_in(token, g * 8u + lane * {{ each }}u + {{ j }}u);
{% endfor %}
    var top = abs(v_0);
{% for j in range(1, each) %}
    top = max(top, abs(v_{{ j }}));
{% endfor %}
    var most = max(max(top.x, top.y), max(top.z, top.w));
{% if lanes > 1 %}
{% for step in (1, 2, 4) %}
    most = max(most, subgroupShuffleXor(most, {{ step }}u));
{% endfor %}
{% endif %}
    let scale = bitcast<f32>((bitcast<u32>(most * {{ 1.0 / 127.0 }}) + 0x7fu) & 0xffffff80u);
    let inverse = select(0.0, 1.0 / max(scale, 1e-30), scale > 1e-30);
    let start = token * {{ pitch }}u + g * 8u + lane * {{ each }}u;
    var total = vec4<i32>(0);
{% for j in range(each) %}
    let q_{{ j }} = vec4<i32>(clamp(round(v_{{ j }} * inverse), vec4<f32>(-127.0), vec4<f32>(127.0)));
    total += q_{{ j }};
{% endfor %}
    var sum = (total.x + total.y) + (total.z + total.w);
{% if lanes > 1 %}
{% for step in (1, 2, 4) %}
    sum += subgroupShuffleXor(sum, {{ step }}u);
{% endfor %}
{% endif %}
    if (wanted < {{ tokens * groups }}u) {
{% for j in range(each) %}
        y[start + {{ j }}u] = pack4xI8(q_{{ j }});
{% endfor %}
        if (lane == 0u) {
            let factors = token * {{ pitch }}u + {{ 8 * groups }}u + 2u * g;
            y[factors] = bitcast<u32>(select(0.0, scale, scale > 1e-30));
            y[factors + 1u] = bitcast<u32>(select(0.0, scale, scale > 1e-30) * f32(sum));
        }
    }
}
