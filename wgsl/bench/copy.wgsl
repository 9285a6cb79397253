// The roof that decode is measured against: copies vec4<f32> as fast as this device moves memory.
// Bindings: 0 source [vectors], 1 target [vectors]. Constants: vectors, grid_x, size.

@group(0) @binding(0) var<storage, read> source: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read_write> sink: array<vec4<f32>>;

@compute @workgroup_size({{ size }})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let first = (group.x + group.y * {{ grid_x }}u) * {{ size * 4 }}u + lane;
    {% for step in range(4) %}
    if (first + {{ step * size }}u < {{ vectors }}u) {
        sink[first + {{ step * size }}u] = source[first + {{ step * size }}u];
    }
    {% endfor %}
}
