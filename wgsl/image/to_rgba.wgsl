// Pixels as RGBA bytes, red first, for the host: from a picture in -1 .. 1, or (a preview) from
// latents by a linear map whose result is in -1 .. 1. A pixel that is not finite gets the alpha 0.
// Bindings: x [b, h, w, c], factors f32 [4 c + 4] (rows r, g, b, unused of c each, then their offsets),
// rgba u32 [pixels] (written). One invocation a pixel.

fn finite(v: f32) -> bool {
    return (bitcast<u32>(v) & 0x7f800000u) != 0x7f800000u;
}

@compute @workgroup_size({{ size }})
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) index: u32) {
    let i = (id.x + id.y * {{ grid_x }}u) * {{ size }}u + index;
    if (i >= {{ pixels }}u) {
        return;
    }
{% if has_factors %}
    var v = vec3<f32>(factors[{{ 4 * channels }}u], factors[{{ 4 * channels + 1 }}u], factors[{{ 4 * channels + 2 }}u]);
    for (var s = 0u; s < {{ slices }}u; s++) {
        let latent = x_at(i, s);
{% for k in range(4) %}
        {{ "if (4u * s + %du < %du) " % (k, channels) if channels % 4 }}{
            let c = 4u * s + {{ k }}u;
            v += latent.{{ "xyzw"[k] }} * vec3<f32>(factors[c], factors[{{ channels }}u + c], factors[{{ 2 * channels }}u + c]);
        }
{% endfor %}
    }
{% else %}
    let v = x_at(i, 0u).xyz;
{% endif %}
    let good = finite(v.x) && finite(v.y) && finite(v.z);
    let byte = vec3<u32>(round(clamp(fma(v, vec3<f32>(127.5), vec3<f32>(127.5)), vec3<f32>(0.0), vec3<f32>(255.0))));
    rgba[i] = select(0u, byte.x | (byte.y << 8u) | (byte.z << 16u) | 0xff000000u, good);
}
