// A vector for each picture (or one for all) added to all its pixels: y = x + shift[b].
// Bindings: x [b, h, w, c], shift [b, c], y [b, h, w, c] (written). One invocation four channels.

@compute @workgroup_size({{ size }})
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) index: u32) {
    let i = (id.x + id.y * {{ grid_x }}u) * {{ size }}u + index;
    if (i >= {{ vectors }}u) {
        return;
    }
    let row = i / {{ slices }}u;
    let s = i % {{ slices }}u;
    y_put(row, s, x_at(row, s) + shift_at(row / {{ pixels }}u, s));
}
