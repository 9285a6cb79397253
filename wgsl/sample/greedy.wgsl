// Greedy choice: the largest logit, the lowest id of equals; then the state moves on by one token.
// Bindings: logits [1, V], state u32 [16] (changed). One workgroup.
{{ state_words }}
const SIZE = {{ size }}u;
var<workgroup> best: array<f32, SIZE>;
var<workgroup> place: array<u32, SIZE>;

@compute @workgroup_size(SIZE)
fn main(@builtin(local_invocation_index) lane: u32) {
    var top = -3.0e38;
    var at = 0u;
    for (var s = lane; s < {{ slices }}u; s += SIZE) {
        let v = logits_at(0u, s);
        for (var i = 0u; i < 4u; i++) {
            if (s * 4u + i < {{ vocabulary }}u && v[i] > top) { top = v[i]; at = s * 4u + i; }
        }
    }
    best[lane] = top;
    place[lane] = at;
    workgroupBarrier();
    if (lane == 0u) {
        for (var i = 1u; i < SIZE; i++) {
            if (best[i] > best[0] || (best[i] == best[0] && place[i] < place[0])) { best[0] = best[i]; place[0] = place[i]; }
        }
        state[POSITION] += state[COUNT];
        state[COUNT] = 1u;
        state[TOKEN] = place[0];
        state[COUNTER] += 1u;
    }
}
