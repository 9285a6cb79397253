// Rotary positions, and the KV cache: queries and keys are (optionally) RMS-normalised a head at a
// time and rotated by position * frequency; queries go to q, keys and values into the caches.
// Bindings: qkv [T, (H + 2 K) D], k_cache and v_cache [K, positions, D] (written), rope_freqs
// [rope_dim / 2], state u32 [16], q [T, H D] (written), and q_gain, k_gain [D] where normalised.
// One invocation does VECS vectors of four channels of one head. Where heads are normalised, each
// adds up its whole head itself: the loads are shared by neighbours, and nobody waits at a barrier.

{{ state_words }}
const TOKENS: u32 = {{ tokens }}u;
const HEADS: u32 = {{ heads }}u;  // of queries
const KV_HEADS: u32 = {{ kv_heads }}u;
const SLICES: u32 = {{ slices }}u;  // vectors of a head
const PARTS: u32 = {{ slices // vecs }}u;  // invocations of a head
const ALL: u32 = {{ heads + 2 * kv_heads }}u;
const POSITIONS: u32 = {{ positions }}u;
{% include "rope/rotated.wgsl" %}

@compute @workgroup_size({{ size }})
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) index: u32,
) {
    let i = (group.x + group.y * {{ grid_x }}u) * {{ size }}u + index;
    let head = i / PARTS % ALL;
    let token = i / (PARTS * ALL);
    if (token >= TOKENS) {
        return;
    }
    let first = i % PARTS * {{ vecs }}u;
    let position = state[POSITION] + token;
    let kept = token < state[COUNT] && position < POSITIONS;
    if (head >= HEADS + KV_HEADS) {
        if (kept) {
            for (var s = first; s < first + {{ vecs }}u; s++) {
                v_cache_write(0u, head - HEADS - KV_HEADS, position, s, qkv_at(token, head * SLICES + s));
            }
        }
        return;
    }
{% if q_norm or k_norm %}
    let norm = root_mean_square(token, head * SLICES);
{% else %}
    let norm = 1.0;
{% endif %}
    for (var s = first; s < first + {{ vecs }}u; s++) {
{% if rope_dim %}
        let v = rotated(token, head, s, norm, f32(position));
{% else %}
        let v = element(token, head, s, norm);
{% endif %}
        if (head < HEADS) {
            q_put(token, head * SLICES + s, v);
        } else if (kept) {
            k_cache_write(0u, head - HEADS, position, s, v);
        }
    }
}
