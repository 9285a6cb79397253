// Attention of whole sequences in the flash manner, for any device: no score leaves the workgroup.
//     o[b, i, head] = softmax over j of (q[b, i, head] . k[b, j, head] * scale) times v[b, j, head]
// Bindings: q [b n, ..], k and v [b m, ..] (heads side by side, from slice q_offset and so on; one
// value may be bound as several), o [b n, heads D] (written).
//
// A workgroup takes tile_queries queries of one head and walks the keys in tiles. Lanes form
// `lines` lines of `columns`: a line holds lane_queries queries (line + i * lines), and each of its
// columns four keys of the tile and every columns-th slice of the output. Queries and keys lie in
// workgroup memory slice by slice, `chunk` slices at a time; the values take the keys' place.

{% set key_tile = 4 * columns %}
{% set threads = columns * lines %}
{% set tile_queries = lines * lane_queries %}
{% set pitch_q = tile_queries + 1 %}
{% set pitch_k = key_tile + 1 %}
{% set chunks = (slices + chunk - 1) // chunk %}
{% set parts = (chunk + columns - 1) // columns %}
{% set scalar = "f16" if half else "f32" %}
{% set vec4 = "vec4<%s>" % scalar %}
{% set read = "at_h" if half else "at" %}
const KEYS: u32 = {{ keys }}u;
const QUERIES: u32 = {{ queries }}u;

var<workgroup> tile_q: array<{{ vec4 }}, {{ pitch_q * chunk }}>; // [slice][query]
var<workgroup> tile_kv: array<{{ vec4 }}, {{ pitch_k * chunk }}>; // keys [slice][position], values [key][slice]
var<workgroup> weights: array<vec4<f32>, {{ tile_queries * (columns + 1) }}>; // [query][four keys]
var<workgroup> maxima: array<f32, {{ tile_queries * (columns + 1) }}>;

{% macro each(count) %}for (var i = index; i < {{ count }}u; i += {{ threads }}u){% endmacro %}
{% macro load_queries(c) %}
{% set here = [chunk, slices - c * chunk] | min %}
{{ each(tile_queries * here) }} {
    let row = min(first_query + i / {{ here }}u, QUERIES - 1u);
    tile_q[i % {{ here }}u * {{ pitch_q }}u + i / {{ here }}u] =
        q_{{ read }}(first_row + row, {{ q_offset + c * chunk }}u + head * {{ slices }}u + i % {{ here }}u);
}
{% endmacro %}
{# Key 4c + j of the tile lies at position j * columns + c. #}
{% macro load_keys(c) %}
{% set here = [chunk, slices - c * chunk] | min %}
{{ each(key_tile * here) }} {
    let key = i / {{ here }}u;
    let row = min(at + key, KEYS - 1u);
    tile_kv[i % {{ here }}u * {{ pitch_k }}u + key % 4u * {{ columns }}u + key / 4u] =
        k_{{ read }}(b * KEYS + row, {{ k_offset + c * chunk }}u + head * {{ slices }}u + i % {{ here }}u);
}
{% endmacro %}
{% macro load_values(c) %}
{% set here = [chunk, slices - c * chunk] | min %}
{{ each(key_tile * here) }} {
    let row = min(at + i / {{ here }}u, KEYS - 1u);
    tile_kv[i / {{ here }}u * {{ chunk }}u + i % {{ here }}u] =
        v_{{ read }}(b * KEYS + row, {{ v_offset + c * chunk }}u + head * {{ slices }}u + i % {{ here }}u);
}
{% endmacro %}
@compute @workgroup_size({{ threads }})
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) index: u32) {
    let flat = id.x + id.y * {{ grid_x }}u;
    let first_query = flat % {{ blocks }}u * {{ tile_queries }}u;
    let head = flat / {{ blocks }}u % {{ heads }}u;
    let b = flat / {{ blocks * heads }}u;
    if (b >= {{ batch }}u) {
        return;
    }
    let first_row = b * QUERIES;
    let column = index % {{ columns }}u;
    let line = index / {{ columns }}u;
{% for r in range(lane_queries) %}
    var most_{{ r }} = -1e9;
    var total_{{ r }} = 0.0;
{% for c in range(chunks) %}{% for p in range(parts) %}
    var out_{{ r }}_{{ c }}_{{ p }} = vec4<f32>(0.0);
{% endfor %}{% endfor %}
{% endfor %}
{% if chunks == 1 %}
    {{ load_queries(0) | indent(4) }}
{% endif %}
{% if causal %}
    let end = min(first_query + {{ tile_queries }}u, KEYS);
{% else %}
    let end = KEYS;
{% endif %}
    for (var at = 0u; at < end; at += {{ key_tile }}u) {
{% for r in range(lane_queries) %}
        var score_{{ r }} = vec4<f32>(0.0);
{% endfor %}
{% for c in range(chunks) %}
        workgroupBarrier();
{% if chunks > 1 %}
        {{ load_queries(c) | indent(8) }}
{% endif %}
        {{ load_keys(c) | indent(8) }}
        workgroupBarrier();
        for (var s = 0u; s < {{ [chunk, slices - c * chunk] | min }}u; s++) {
{% for j in range(4) %}
            let k_{{ j }} = {{ "vec4<f32>" if half }}(tile_kv[s * {{ pitch_k }}u + {{ j * columns }}u + column]);
{% endfor %}
{% for r in range(lane_queries) %}
            let q_{{ r }} = {{ "vec4<f32>" if half }}(tile_q[s * {{ pitch_q }}u + line + {{ r * lines }}u]);
            score_{{ r }} += vec4<f32>(dot(q_{{ r }}, k_0), dot(q_{{ r }}, k_1), dot(q_{{ r }}, k_2), dot(q_{{ r }}, k_3));
{% endfor %}
        }
{% endfor %}
        let key = vec4<u32>(at + 4u * column) + vec4<u32>(0u, 1u, 2u, 3u);
{% for r in range(lane_queries) %}
{% if causal %}
        let seen_{{ r }} = key <= vec4<u32>(min(first_query + line + {{ r * lines }}u, KEYS - 1u));
{% else %}
        let seen_{{ r }} = key < vec4<u32>(KEYS);
{% endif %}
        score_{{ r }} = select(vec4<f32>(-1e9), score_{{ r }} * {{ scale }}, seen_{{ r }});
        maxima[(line + {{ r * lines }}u) * {{ columns + 1 }}u + column] =
            max(max(score_{{ r }}.x, score_{{ r }}.y), max(score_{{ r }}.z, score_{{ r }}.w));
{% endfor %}
        workgroupBarrier();
{% for r in range(lane_queries) %}
        {
            let row = line + {{ r * lines }}u;
            var larger = most_{{ r }};
            for (var c = 0u; c < {{ columns }}u; c++) {
                larger = max(larger, maxima[row * {{ columns + 1 }}u + c]);
            }
            let shrink = exp(max(most_{{ r }} - larger, -80.0));
            most_{{ r }} = larger;
            total_{{ r }} *= shrink;
{% for c in range(chunks) %}{% for p in range(parts) %}
            out_{{ r }}_{{ c }}_{{ p }} *= shrink;
{% endfor %}{% endfor %}
            let weight = exp(max(score_{{ r }} - larger, vec4<f32>(-80.0)));
            weights[row * {{ columns + 1 }}u + column] = select(vec4<f32>(0.0), weight, seen_{{ r }});
        }
{% endfor %}
{% for c in range(chunks) %}
{% set here = [chunk, slices - c * chunk] | min %}
{% if c %}
        workgroupBarrier();
{% endif %}
        {{ load_values(c) | indent(8) }}
        workgroupBarrier();
        for (var k = 0u; k < {{ columns }}u; k++) {
{% for r in range(lane_queries) %}
            let w_{{ r }} = weights[(line + {{ r * lines }}u) * {{ columns + 1 }}u + k];
{% if c == 0 %}
            total_{{ r }} += (w_{{ r }}.x + w_{{ r }}.y) + (w_{{ r }}.z + w_{{ r }}.w);
{% endif %}
{% endfor %}
{% for j in range(4) %}{% for p in range(parts) %}
            {
                let v = {{ "vec4<f32>" if half }}(tile_kv[(4u * k + {{ j }}u) * {{ chunk }}u + {{ "min(column + %du, %du)" % (p * columns, here - 1) if (p + 1) * columns > here else "column + %du" % (p * columns) }}]);
{% for r in range(lane_queries) %}
                out_{{ r }}_{{ c }}_{{ p }} = fma(vec4<f32>(w_{{ r }}.{{ "xyzw"[j] }}), v, out_{{ r }}_{{ c }}_{{ p }});
{% endfor %}
            }
{% endfor %}{% endfor %}
        }
{% endfor %}
    }
{% for r in range(lane_queries) %}
    {
        let i = first_query + line + {{ r * lines }}u;
        let factor = 1.0 / total_{{ r }};
        if (i < QUERIES) {
{% for c in range(chunks) %}{% for p in range(parts) %}
{% set here = [chunk, slices - c * chunk] | min %}
{% if p * columns < here %}
            {{ "if (column + %du < %du) " % (p * columns, here) if (p + 1) * columns > here }}{
                o_put(first_row + i, head * {{ slices }}u + {{ c * chunk + p * columns }}u + column, out_{{ r }}_{{ c }}_{{ p }} * factor);
            }
{% endif %}
{% endfor %}{% endfor %}
        }
    }
{% endfor %}
}
