// The end of a convolution whose columns were added up in parts: see conv/parts.wgsl.
// Bindings: partial f32 [splits][pixels][outputs], bias, shift, residual, y. One invocation four channels.

{% import "conv/parts.wgsl" as parts with context %}
{{ parts.pixel_of() }}
{{ parts.finish() }}
@compute @workgroup_size({{ size }})
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) index: u32) {
    let i = (id.x + id.y * {{ grid_x }}u) * {{ size }}u + index;
    if (i >= {{ pixels * out_slices }}u) {
        return;
    }
    let p = i / {{ out_slices }}u;
    let s = i % {{ out_slices }}u;
    var sum = vec4<f32>(0.0);
    for (var k = 0u; k < {{ splits }}u; k++) {
        sum += partial_at(k * {{ pixels }}u + p, s);
    }
    finish(pixel_of(p), 4u * s, sum);
}
