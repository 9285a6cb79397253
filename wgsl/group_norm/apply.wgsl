// A group norm applied: y = act(x * table[b, 0] + table[b, 1]).
// Bindings: x, skip [b, h, w, c], table f32 [b, 2, C], y [b, h, w, C] (written). One invocation four channels.

{% import "group_norm/parts.wgsl" as parts with context %}
{{ parts.joined() }}
@compute @workgroup_size({{ size }})
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) index: u32) {
    let i = (id.x + id.y * {{ grid_x }}u) * {{ size }}u + index;
    let s = i % {{ slices }}u;
    let x = i / {{ slices }}u % {{ width }}u;
    let y = i / {{ slices * width }}u % {{ height }}u;
    let b = i / {{ slices * pixels }}u;
    if (b >= {{ batch }}u) {
        return;
    }
    {{ "var" if channels % 4 else "let" }} v = fma(joined(b, y, x, s), table_read(b, 0u, 0u, s), table_read(b, 0u, 1u, s));
{% if channels % 4 %}
    v = select(vec4<f32>(0.0), v, vec4<u32>(4u * s) + vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>({{ channels }}u));
{% endif %}
    y_write(b, y, x, s, {{ act if act else "v" }});
}
