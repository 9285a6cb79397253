// Attention of a chunk of tokens, one invocation a query row, for devices that walk all rows of a
// workgroup in step (software): every load of keys and values is uniform, BURST of them in flight,
// and what a row may not see is masked. An invocation only touches its own column of the workgroup
// memory, so there are no barriers; private arrays would be unrolled into very long shaders.
// Bindings: q [T, H D], k_cache and v_cache [K, positions, D], state u32 [16], o [T, H D] (written).

{{ state_words }}
const SLICES: u32 = {{ slices }}u;
const TILE: u32 = {{ tile }}u;
const SIZE: u32 = {{ size }}u;
const POSITIONS: u32 = {{ positions }}u;

var<workgroup> weights: array<f32, {{ tile * size }}>;  // [TILE][SIZE]
var<workgroup> sums: array<vec4<f32>, {{ slices * size }}>;  // [SLICES][SIZE]

@compute @workgroup_size({{ size }})
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) index: u32,
) {
    let flat = group.x + group.y * {{ grid_x }}u;
    let head = flat / {{ blocks }}u;
    // The last rows see the most keys: they start first.
    let first_token = ({{ blocks - 1 }}u - flat % {{ blocks }}u) * {{ size }}u;
    let count = min(state[COUNT], {{ tokens }}u);
    if (head >= {{ heads }}u || first_token >= count) {
        return;
    }
    let kv_head = head / {{ group }}u;
    let position = state[POSITION];
    let token = min(first_token + index, count - 1u);
    let own = min(position + token, POSITIONS - 1u);
    let end = min(position + min(first_token + {{ size - 1 }}u, count - 1u), POSITIONS - 1u) + 1u;
{% if window %}
    let lowest = position + first_token;
    let begin = (lowest + 1u - min(lowest + 1u, {{ window }}u)) / TILE * TILE;
    let oldest = own + 1u - min(own + 1u, {{ window }}u);
{% else %}
    let begin = 0u;
{% endif %}

    for (var s = 0u; s < SLICES; s++) {
        sums[s * SIZE + index] = vec4<f32>(0.0);
    }
    var most = -1e9;
    var total = 0.0;
    for (var at = begin; at < end; at += TILE) {
        let keys = min(TILE, end - at);
        var larger = most;
        for (var k = 0u; k < keys; k += {{ burst }}u) {
{% for i in range(burst) %}
            let row{{ i }} = min(at + k + {{ i }}u, end - 1u);
            var d{{ i }} = vec4<f32>(0.0);
{% endfor %}
            for (var s = 0u; s < SLICES; s++) {
                let one = q_at(token, head * SLICES + s);
{% for i in range(burst) %}
                d{{ i }} = fma(one, k_cache_read(0u, kv_head, row{{ i }}, s), d{{ i }});
{% endfor %}
            }
{% for i in range(burst) %}
            {
                var score = ((d{{ i }}.x + d{{ i }}.y) + (d{{ i }}.z + d{{ i }}.w)) * {{ scale }};
{% if softcap %}
                score = {{ softcap }} * tanh(clamp(score / {{ softcap }}, -15.0, 15.0));
{% endif %}
                score = select(-1e9, score, at + k + {{ i }}u <= own{{ " && at + k + " ~ i ~ "u >= oldest" if window }});
                larger = max(larger, score);
                weights[(k + {{ i }}u) * SIZE + index] = score;
            }
{% endfor %}
        }
        let shrink = exp(max(most - larger, -80.0));
        most = larger;
        total *= shrink;
        for (var k = 0u; k < keys; k++) {
            let score = weights[k * SIZE + index];
            let weight = select(0.0, exp(max(score - larger, -80.0)), score > -1e8);
            weights[k * SIZE + index] = weight;
            total += weight;
        }
        for (var s = 0u; s < SLICES; s += {{ wide }}u) {
{% for j in range(wide) %}
            var v{{ j }} = sums[(s + {{ j }}u) * SIZE + index] * shrink;
{% endfor %}
            for (var k = 0u; k < keys; k++) {
                let weight = vec4<f32>(weights[k * SIZE + index]);
{% for j in range(wide) %}
                v{{ j }} = fma(weight, v_cache_read(0u, kv_head, at + k, s + {{ j }}u), v{{ j }});
{% endfor %}
            }
{% for j in range(wide) %}
            sums[(s + {{ j }}u) * SIZE + index] = v{{ j }};
{% endfor %}
        }
    }
    if (first_token + index < count) {
        let factor = 1.0 / total;
        for (var s = 0u; s < SLICES; s++) {
            o_put(token, head * SLICES + s, sums[s * SIZE + index] * factor);
        }
    }
}
