// Attention of one token, first half, for devices that run shaders on the CPU: a workgroup is one
// subgroup, whose lanes are the lanes of a vector register. There a load costs a step a lane, from
// workgroup memory too, so every lane always loads something of its own and hands it on by broadcast.
// Scores: a lane owns a key. Sums: a lane owns channels. Bindings as in decode_split.wgsl.

{{ state_words }}
{% include "attention/span.wgsl" %}
const SLICES: u32 = {{ slices }}u;
{% set own = (slices + lanes - 1) // lanes %}

@compute @workgroup_size({{ lanes }})
fn main(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let span = span_of(state[POSITION]);
    if (id.y >= span.used) {
        return;
    }
    let begin = span.first + id.y * span.chunk;
    let end = min(begin + span.chunk, span.end);
    let kv_head = id.x / {{ blocks }}u;
    let head = kv_head * {{ heads_per_kv }}u + id.x % {{ blocks }}u * {{ group }}u;
    let last_head = kv_head * {{ heads_per_kv }}u + {{ heads_per_kv - 1 }}u;
{% for j in range(own) %}
    let slice{{ j }} = {{ "min(lane + %du, SLICES - 1u)" % (j * lanes) if (j + 1) * lanes > slices else "lane + %du" % (j * lanes) }};
{% endfor %}
{% for g in range(group) %}
    var most{{ g }} = -1e9;
    var total{{ g }} = 0.0;
{% for j in range(own) %}
    let q{{ g }}_{{ j }} = q_at(0u, min(head + {{ g }}u, last_head) * SLICES + slice{{ j }}) * {{ scale }};
    var sum{{ g }}_{{ j }} = vec4<f32>(0.0);
{% endfor %}
{% endfor %}
    for (var at = begin; at < end; at += {{ lanes }}u) {
        let row = min(at + lane, end - 1u);
{% for g in range(group) %}
        var d{{ g }} = vec4<f32>(0.0);
{% endfor %}
{% for s in range(slices) %}
        {
            let k = k_cache_read(0u, kv_head, row, {{ s }}u);
{% for g in range(group) %}
            d{{ g }} = fma(k, subgroupBroadcast(q{{ g }}_{{ s // lanes }}, {{ s % lanes }}u), d{{ g }});
{% endfor %}
        }
{% endfor %}
{% for g in range(group) %}
        var w{{ g }} = (d{{ g }}.x + d{{ g }}.y) + (d{{ g }}.z + d{{ g }}.w);
{% if softcap %}
        w{{ g }} = {{ softcap }} * tanh(clamp(w{{ g }} / {{ softcap }}, -15.0, 15.0));
{% endif %}
        w{{ g }} = select(-1e9, w{{ g }}, at + lane < end);
        {
            let larger = max(most{{ g }}, subgroupMax(w{{ g }}));
            let shrink = exp(max(most{{ g }} - larger, -80.0));
            most{{ g }} = larger;
            w{{ g }} = select(0.0, exp(max(w{{ g }} - larger, -80.0)), at + lane < end);
            total{{ g }} = fma(total{{ g }}, shrink, w{{ g }});
{% for j in range(own) %}
            sum{{ g }}_{{ j }} *= shrink;
{% endfor %}
        }
{% endfor %}
{% for key in range(lanes) %}
        {
            let key = min(at + {{ key }}u, end - 1u);
{% for g in range(group) %}
            let one{{ g }} = vec4<f32>(subgroupBroadcast(w{{ g }}, {{ key }}u));
{% endfor %}
{% for j in range(own) %}
            let v{{ j }} = v_cache_read(0u, kv_head, key, slice{{ j }});
{% for g in range(group) %}
            sum{{ g }}_{{ j }} = fma(one{{ g }}, v{{ j }}, sum{{ g }}_{{ j }});
{% endfor %}
{% endfor %}
        }
{% endfor %}
    }
{% for g in range(group) %}
    {
        let weights = subgroupAdd(total{{ g }});
        if (head + {{ g }}u <= last_head) {
            let base = ((head + {{ g }}u) * SPLITS + id.y) * (SLICES + 1u);
{% for j in range(own) %}
            if (lane + {{ j * lanes }}u < SLICES) {
                partials[base + slice{{ j }}] = sum{{ g }}_{{ j }};
            }
{% endfor %}
            if (lane == 0u) {
                partials[base + SLICES] = vec4<f32>(most{{ g }}, weights, 0.0, 0.0);
            }
        }
    }
{% endfor %}
}
