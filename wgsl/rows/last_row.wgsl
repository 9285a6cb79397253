// The last valid row of a prefill chunk: y = x[COUNT - 1].
// Bindings: x [T, C], state u32 [16], y [1, C] (written). One invocation a vector of four channels.

{{ state_words }}
@compute @workgroup_size({{ size }})
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x < {{ slices }}u) {
        let row = clamp(state[COUNT], 1u, {{ tokens }}u) - 1u;
        y_put(0u, id.x, x_at(row, id.x));
    }
}
