// What lies outside the mask goes back to the first picture, as noisy as this step leaves x:
//     x' = mask * x + (1 - mask) * (INIT_SCALE * init + NOISE_SCALE * noise)
// Bindings: x f32 [b, h, w, c] (changed), init and noise f32 [b, h, w, c], mask f32 [1 or b, h, w, 1],
// steps f32 [n, words], state u32. One invocation four channels.

{{ state_words }}
@compute @workgroup_size({{ size }})
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) index: u32) {
    let i = (id.x + id.y * {{ grid_x }}u) * {{ size }}u + index;
    if (i >= {{ vectors }}u) {
        return;
    }
    let at = min(state[STEP], {{ steps - 1 }}u) * {{ step_words }}u;
    let row = i / {{ slices }}u;
    let s = i % {{ slices }}u;
    let kept = steps[at + INIT_SCALE] * init_at(row, s) + steps[at + NOISE_SCALE] * noise_at(row, s);
    let part = mask_at(row % {{ mask_rows }}u, 0u).x;
    x_put(row, s, mix(kept, x_at(row, s), vec4<f32>(part)));
}
