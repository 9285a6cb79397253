// Attention of whole sequences in the flash manner, for any device: no score leaves the workgroup.
//     o[b, i, head] = softmax over j of (q[b, i, head] . k[b, j, head] * scale) times v[b, j, head]
// Bindings: q [b n, ..], k and v [b m, ..] (heads side by side, from slice q_offset and so on; one
// value may be bound as several), o [b n, heads D] (written).
//
// A workgroup takes tile_queries queries of one head and walks the keys in tiles. Lanes form
// `lines` lines of `columns`: a line holds lane_queries queries (line + i * lines), and each of its
// columns four keys of the tile and every columns-th slice of the output. Queries and keys lie in
// workgroup memory slice by slice, `chunk` slices at a time; the values take the keys' place (or,
// for heads of many chunks, are read where they lie).

{% set key_tile = 4 * columns %}
{% set threads = columns * lines %}
{% set tile_queries = lines * lane_queries %}
{% set pitch_q = tile_queries + 1 %}
{% set pitch_k = key_tile + 1 %}
{% set chunks = (slices + chunk - 1) // chunk %}
{% set direct = chunks > 4 %}
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
{# Slices `base` and up of the tile's queries or keys; past the last slice nothing is brought. #}
{% macro load_queries(base) %}
{{ each(tile_queries * chunk) }} {
    let s = {{ base }} + i % {{ chunk }}u;
    let row = first_row + min(first_query + i / {{ chunk }}u, QUERIES - 1u);
    {{ "if (s < %du) " % slices if slices % chunk }}{
        tile_q[i % {{ chunk }}u * {{ pitch_q }}u + i / {{ chunk }}u] = q_{{ read }}(row, {{ q_offset }}u + head * {{ slices }}u + s);
    }
}
{% endmacro %}
{# Key 4c + j of the tile lies at position j * columns + c. #}
{% macro load_keys(base) %}
{{ each(key_tile * chunk) }} {
    let s = {{ base }} + i % {{ chunk }}u;
    let key = i / {{ chunk }}u;
    let row = b * KEYS + min(at + key, KEYS - 1u);
    {{ "if (s < %du) " % slices if slices % chunk }}{
        tile_kv[i % {{ chunk }}u * {{ pitch_k }}u + key % 4u * {{ columns }}u + key / 4u] = k_{{ read }}(row, {{ k_offset }}u + head * {{ slices }}u + s);
    }
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
{# Add the products of the slices in workgroup memory to the scores. #}
{% macro scores(count) %}
for (var s = 0u; s < {{ count }}; s++) {
{% for j in range(4) %}
    let k_{{ j }} = {{ "vec4<f32>" if half }}(tile_kv[s * {{ pitch_k }}u + {{ j * columns }}u + column]);
{% endfor %}
{% for r in range(lane_queries) %}
    let q_{{ r }} = {{ "vec4<f32>" if half }}(tile_q[s * {{ pitch_q }}u + line + {{ r * lines }}u]);
    score_{{ r }} += vec4<f32>(dot(q_{{ r }}, k_0), dot(q_{{ r }}, k_1), dot(q_{{ r }}, k_2), dot(q_{{ r }}, k_3));
{% endfor %}
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
    {{ load_queries("0u") | indent(4) }}
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
{% if chunks == 1 %}
        workgroupBarrier();
        {{ load_keys("0u") | indent(8) }}
        workgroupBarrier();
        {{ scores("%du" % slices) | indent(8) }}
{% else %}
        for (var base = 0u; base < {{ slices }}u; base += {{ chunk }}u) {
            workgroupBarrier();
            {{ load_queries("base") | indent(12) }}
            {{ load_keys("base") | indent(12) }}
            workgroupBarrier();
            {{ scores("min(%du, %du - base)" % (chunk, slices)) | indent(12) }}
        }
{% endif %}
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
{% if direct %}
{% if c == 0 %}
        workgroupBarrier();
{% endif %}
{% else %}
{% if c %}
        workgroupBarrier();
{% endif %}
        {{ load_values(c) | indent(8) }}
        workgroupBarrier();
{% endif %}
        for (var k = 0u; k < {{ columns }}u; k++) {
{% for r in range(lane_queries) %}
            let w_{{ r }} = weights[(line + {{ r * lines }}u) * {{ columns + 1 }}u + k];
{% if c == 0 %}
            total_{{ r }} += (w_{{ r }}.x + w_{{ r }}.y) + (w_{{ r }}.z + w_{{ r }}.w);
{% endif %}
{% endfor %}
{% for j in range(4) %}{% for p in range(parts) %}
            {
                let s = {{ "min(column + %du, %du)" % (p * columns, here - 1) if (p + 1) * columns > here else "column + %du" % (p * columns) }};
{% if direct %}
                let row = b * KEYS + min(at + 4u * k + {{ j }}u, KEYS - 1u);
                let v = v_at(row, {{ v_offset + c * chunk }}u + head * {{ slices }}u + s);
{% else %}
                let v = {{ "vec4<f32>" if half }}(tile_kv[(4u * k + {{ j }}u) * {{ chunk }}u + s]);
{% endif %}
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
