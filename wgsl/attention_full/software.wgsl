// Attention of whole sequences for devices that run shaders on the CPU: a subgroup is one vector
// register and takes LANES queries of one head, one a lane. Every load brings another key or value
// row to each lane, which is then handed to all lanes by a broadcast. No barriers: an invocation
// only touches its own column of the workgroup memory.
// Bindings: q [b n, ..], k and v [b m, ..] (heads side by side, from slice q_offset and so on),
// o [b n, heads D] (written).

const KEYS: u32 = {{ keys }}u;
const QUERIES: u32 = {{ queries }}u;
const LANES: u32 = {{ lanes }}u;

var<workgroup> sums: array<vec4<f32>, {{ slices * lanes }}>; // [slice][lane]

@compute @workgroup_size({{ lanes }})
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) index: u32) {
    let flat = id.x + id.y * {{ grid_x }}u;
    let first_query = flat % {{ blocks }}u * LANES;
    let head = flat / {{ blocks }}u % {{ heads }}u;
    let b = flat / {{ blocks * heads }}u;
    if (b >= {{ batch }}u) {
        return;
    }
    let query = min(first_query + index, QUERIES - 1u);
    let row = b * QUERIES + query;
    for (var s = 0u; s < {{ slices }}u; s++) {
        sums[s * LANES + index] = vec4<f32>(0.0);
    }
    var most = -1e9;
    var total = 0.0;
{% if causal %}
    let end = min(first_query + LANES, KEYS);
{% else %}
    let end = KEYS;
{% endif %}
    for (var at = 0u; at < end; at += LANES) {
        let own = b * KEYS + min(at + index, KEYS - 1u); // the key that this lane brings
{% for i in range(lanes) %}
        var d{{ i }} = 0.0;
{% endfor %}
        for (var s = 0u; s < {{ slices }}u; s++) {
            let one = q_at(row, {{ q_offset }}u + head * {{ slices }}u + s);
            let key = k_at(own, {{ k_offset }}u + head * {{ slices }}u + s);
{% for i in range(lanes) %}
            {
                let each = subgroupBroadcast(key, {{ i }}u);
                d{{ i }} = fma(one.x, each.x, fma(one.y, each.y, fma(one.z, each.z, fma(one.w, each.w, d{{ i }}))));
            }
{% endfor %}
        }
        var larger = most;
{% for i in range(lanes) %}
        let seen{{ i }} = at + {{ i }}u {{ "<= query" if causal else "< KEYS" }};
        d{{ i }} = select(-1e9, d{{ i }} * {{ scale }}, seen{{ i }});
        larger = max(larger, d{{ i }});
{% endfor %}
        let shrink = exp(max(most - larger, -80.0));
        most = larger;
        total *= shrink;
{% for i in range(lanes) %}
        let w{{ i }} = select(0.0, exp(max(d{{ i }} - larger, -80.0)), seen{{ i }});
        total += w{{ i }};
{% endfor %}
        for (var s = 0u; s < {{ slices }}u; s++) {
            let value = v_at(own, {{ v_offset }}u + head * {{ slices }}u + s);
            var sum = sums[s * LANES + index] * shrink;
{% for i in range(lanes) %}
            sum = fma(vec4<f32>(w{{ i }}), subgroupBroadcast(value, {{ i }}u), sum);
{% endfor %}
            sums[s * LANES + index] = sum;
        }
    }
    if (first_query + index < QUERIES) {
        let factor = 1.0 / total;
        for (var s = 0u; s < {{ slices }}u; s++) {
            o_put(row, head * {{ slices }}u + s, sums[s * LANES + index] * factor);
        }
    }
}
