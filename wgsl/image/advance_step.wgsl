// The next step: state[STEP] + 1. Bindings: state u32 (changed).

{{ state_words }}
@compute @workgroup_size(1)
fn main() {
    state[STEP] += 1u;
}
