// What subgroup size does this device really run with?
// Each of 256 invocations writes (subgroup_size, how many invocations a subgroupAdd counts).
// Bindings: 0 seen [256, 2] u32, written.

@group(0) @binding(0) var<storage, read_write> seen: array<vec2<u32>>;

@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) index: u32, @builtin(subgroup_size) size: u32) {
    seen[index] = vec2<u32>(size, subgroupAdd(1u));
}
