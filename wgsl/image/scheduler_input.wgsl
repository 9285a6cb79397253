// What the network gets: y = x * IN_SCALE of the step, once for each branch of the guidance.
// Bindings: x f32 [b, h, w, c], steps f32 [n, words], state u32, y [copies b, h, w, c] (written).

{{ state_words }}
@compute @workgroup_size({{ size }})
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) index: u32) {
    let i = (id.x + id.y * {{ grid_x }}u) * {{ size }}u + index;
    if (i >= {{ vectors }}u) {
        return;
    }
    let step = min(state[STEP], {{ steps - 1 }}u);
    let v = x_at(i / {{ slices }}u, i % {{ slices }}u) * steps[step * {{ step_words }}u + IN_SCALE];
{% for copy in range(copies) %}
    y_put(i / {{ slices }}u + {{ copy * rows }}u, i % {{ slices }}u, v);
{% endfor %}
}
