// Attention of a chunk of tokens for devices that run shaders on the CPU: a workgroup is one subgroup,
// whose lanes are the lanes of a vector register. A lane owns {{ per }} query row(s) (a token and one of the
// query heads that share a KV head). There a load costs a step a lane, even of one address, so each
// lane loads other channels of a key or value and hands them to all by broadcast.
// Bindings: q [T, H D], k_cache and v_cache [K, positions, D], state u32 [16], o [T, H D] (written).

{{ state_words }}
const SLICES: u32 = {{ slices }}u;
const GROUP: u32 = {{ group }}u;
const TILE: u32 = {{ tile }}u;
const POSITIONS: u32 = {{ positions }}u;
{% set own = (slices + lanes - 1) // lanes %}

// A lane's scores of a tile, [TILE][per][lanes]: nobody else reads them, so there are no barriers.
var<workgroup> weights: array<f32, {{ tile * per * lanes }}>;

@compute @workgroup_size({{ lanes }})
fn main(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let count = min(state[COUNT], {{ tokens }}u);
    let position = state[POSITION];
    // The last rows see the most keys: they start first.
    let first_row = ({{ blocks - 1 }}u - id.x) * {{ lanes * per }}u;
    if (first_row >= count * GROUP) {
        return;
    }
    let kv_head = id.y;
    let last_token = min((first_row + {{ lanes * per - 1 }}u) / GROUP, count - 1u);
    let end = min(position + last_token + 1u, POSITIONS);
{% if window %}
    let lowest = position + first_row / GROUP + 1u;
    let begin = lowest - min(lowest, {{ window }}u);
{% else %}
    let begin = 0u;
{% endif %}
{% for j in range(own) %}
    let slice{{ j }} = {{ "min(lane + %du, SLICES - 1u)" % (j * lanes) if (j + 1) * lanes > slices else "lane + %du" % (j * lanes) }};
{% endfor %}
{% for r in range(per) %}
    let row{{ r }} = first_row + {{ r * lanes }}u + lane;
    let token{{ r }} = min(row{{ r }} / GROUP, count - 1u);
    let head{{ r }} = (kv_head * GROUP + row{{ r }} % GROUP) * SLICES;
    let own{{ r }} = position + token{{ r }};
    var most{{ r }} = -1e9;
    var total{{ r }} = 0.0;
{% for s in range(slices) %}
    let q{{ r }}_{{ s }} = q_at(token{{ r }}, head{{ r }} + {{ s }}u) * {{ scale }};
    var sum{{ r }}_{{ s }} = vec4<f32>(0.0);
{% endfor %}
{% endfor %}

    for (var at = begin; at < end; at += TILE) {
        let keys = min(TILE, end - at);
{% for r in range(per) %}
        var larger{{ r }} = most{{ r }};
{% endfor %}
        for (var k = 0u; k < keys; k++) {
{% for j in range(own) %}
            let k{{ j }} = k_cache_read(0u, kv_head, at + k, slice{{ j }});
{% endfor %}
{% for r in range(per) %}
            var d{{ r }} = vec4<f32>(0.0);
{% endfor %}
{% for s in range(slices) %}
            {
                let one = subgroupBroadcast(k{{ s // lanes }}, {{ s % lanes }}u);
{% for r in range(per) %}
                d{{ r }} = fma(q{{ r }}_{{ s }}, one, d{{ r }});
{% endfor %}
            }
{% endfor %}
{% for r in range(per) %}
            {
                var score = (d{{ r }}.x + d{{ r }}.y) + (d{{ r }}.z + d{{ r }}.w);
{% if softcap %}
                score = {{ softcap }} * tanh(clamp(score / {{ softcap }}, -15.0, 15.0));
{% endif %}
                score = select(-1e9, score, at + k <= own{{ r }}{{ " && at + k + %du > own%d" % (window, r) if window }});
                larger{{ r }} = max(larger{{ r }}, score);
                weights[(k * {{ per }}u + {{ r }}u) * {{ lanes }}u + lane] = score;
            }
{% endfor %}
        }
{% for r in range(per) %}
        {
            let shrink = exp(max(most{{ r }} - larger{{ r }}, -80.0));
            most{{ r }} = larger{{ r }};
            total{{ r }} *= shrink;
{% for s in range(slices) %}
            sum{{ r }}_{{ s }} *= shrink;
{% endfor %}
        }
{% endfor %}
        for (var k = 0u; k < keys; k++) {
{% for j in range(own) %}
            let v{{ j }} = v_cache_read(0u, kv_head, at + k, slice{{ j }});
{% endfor %}
{% for r in range(per) %}
            let score{{ r }} = weights[(k * {{ per }}u + {{ r }}u) * {{ lanes }}u + lane];
            let w{{ r }} = select(0.0, exp(max(score{{ r }} - most{{ r }}, -80.0)), score{{ r }} > -1e8);
            total{{ r }} += w{{ r }};
{% endfor %}
{% for s in range(slices) %}
            {
                let one = subgroupBroadcast(v{{ s // lanes }}, {{ s % lanes }}u);
{% for r in range(per) %}
                sum{{ r }}_{{ s }} = fma(vec4<f32>(w{{ r }}), one, sum{{ r }}_{{ s }});
{% endfor %}
            }
{% endfor %}
        }
    }
{% for r in range(per) %}
    if (row{{ r }} < count * GROUP) {
        let factor = 1.0 / total{{ r }};
{% for s in range(slices) %}
        o_put(token{{ r }}, head{{ r }} + {{ s }}u, sum{{ r }}_{{ s }} * factor);
{% endfor %}
    }
{% endfor %}
}
