// Rows of a packed weight as plain f32: y[r, c] = W[r, c] of the bound part, by both decoders.
// Bindings: w (one part), y [rows, cols padded to 32] f32, written. One invocation a group of 32.
// With WHOLE the group is decoded at once (as matrix kernels do), else four weights at a time.

{% import "quant/decode.wgsl" as quant %}
{{ quant.types() }}
{{ quant.decoder("w", weights.w) }}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) index: u32) {
    let at = (id.x + id.y * {{ grid_x }}u) * 64u + index;
    let row = at / {{ groups }}u;
    let g = at % {{ groups }}u;
    if (row >= {{ rows }}u) {
        return;
    }
{% if whole and quant.is_float(weights.w) %}
{% for k in range(4) %}
    let e{{ k }} = w_load8(row, g * 4u + {{ k }}u);
    y_put(row, g * 8u + {{ 2 * k }}u, e{{ k }}.a);
    y_put(row, g * 8u + {{ 2 * k + 1 }}u, e{{ k }}.b);
{% endfor %}
{% elif whole %}
    let group = w_group(row, g);
{% for w in range(4) %}
    y_put(row, g * 8u + {{ w }}u,
        fma({{ quant.codes_f32(weights.w, "group.lo[%d]" % w) }}, vec4<f32>(group.scale.x), vec4<f32>(-group.min.x)));
    y_put(row, g * 8u + {{ w + 4 }}u,
        fma({{ quant.codes_f32(weights.w, "group.hi[%d]" % w) }}, vec4<f32>(group.scale.y), vec4<f32>(-group.min.y)));
{% endfor %}
{% else %}
{% for j in range(8) %}
    y_put(row, g * 8u + {{ j }}u, w_load4(row, g * 8u + {{ j }}u));
{% endfor %}
{% endif %}
}
