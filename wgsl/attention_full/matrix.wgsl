// Attention of whole sequences on matrix units: f16 inputs, f32 sums.
//     o[b, i, head] = softmax over j of (q[b, i, head] . k[b, j, head] * scale) times v[b, j, head]
// Bindings: q [b n, ..], k and v [b m, ..] (heads side by side, from slice q_offset and so on; one
// value may be bound as several), o [b n, heads D] (written).
//
// A workgroup owns ROWS queries of one head, a subgroup {{ over }} x {{ shape.m }} of them. Sums inside
// matrix units cannot be rescaled row by row when a larger score turns up. So there are two passes
// over the keys: the first only finds each query's largest score, the second weighs and adds.
//
// Workgroup memory: tile holds KEYS keys and, after them, KEYS values, [position][D] with zeros up to
// whole units (the queries pass through it on their way into matrices); scores [ROWS][KEYS] f32;
// weights the same in f16. In scores and weights a subgroup only touches its own rows; PER lanes
// share one.

const QUERIES: u32 = {{ queries }}u;
const KEYS_IN_ALL: u32 = {{ keys }}u;
const ROWS: u32 = {{ rows }}u;
const KEYS: u32 = {{ key_tile }}u;
const SIZE: u32 = {{ size }}u;
const PITCH: u32 = {{ pitch }}u;
const SCORE_PITCH: u32 = {{ key_tile + 4 }}u;
const WEIGHT_PITCH: u32 = {{ key_tile + 8 }}u;
{% set m = shape.m %}{% set n = shape.n %}{% set k = shape.k %}
{% set own_rows = m * over %}
{% set per = [lanes // own_rows, 1] | max %}
{% set rows_of_lane = [own_rows // lanes, 1] | max %}
{% set part = key_tile // per %}
{% set deep = (4 * slices + k - 1) // k %}
{% set wide = (4 * slices + n - 1) // n %}
{% set padded = ([deep * k, wide * n] | max) // 4 %}

alias Left = subgroup_matrix_left<f16, {{ k }}, {{ m }}>;
alias Right = subgroup_matrix_right<f16, {{ n }}, {{ k }}>;
alias Sums = subgroup_matrix_result<f32, {{ n }}, {{ m }}>;

var<workgroup> tile: array<f16, {{ tile_rows * pitch }}>;
var<workgroup> scores: array<f32, {{ rows * (key_tile + 4) }}>;
var<workgroup> weights: array<f16, {{ rows * (key_tile + 8) }}>;
var<workgroup> totals: array<f32, {{ rows * per }}>;

fn put(at: u32, v: vec4<f16>) {
    tile[at] = v.x;
    tile[at + 1u] = v.y;
    tile[at + 2u] = v.z;
    tile[at + 3u] = v.w;
}

{% macro guarded(name, row, offset) %}
{% if padded > slices %}
if (s < {{ slices }}u) {
    v = {{ name }}_at_h({{ row }}, {{ offset }}u + head * {{ slices }}u + s);
}
{% else %}
v = {{ name }}_at_h({{ row }}, {{ offset }}u + head * {{ slices }}u + s);
{% endif %}
{% endmacro %}
{% macro loader(name, first) %}
fn load_{{ name }}(b: u32, head: u32, at: u32, index: u32) {
    for (var i = index; i < {{ key_tile * padded }}u; i += SIZE) {
        let s = i % {{ padded }}u;
        let row = b * KEYS_IN_ALL + min(at + i / {{ padded }}u, KEYS_IN_ALL - 1u);
        var v = vec4<f16>(0.0h);
        {{ guarded(name, "row", q_offset if name == "q" else (k_offset if name == "k" else v_offset)) | indent(8) }}
        put(({{ first }} + i / {{ padded }}u) * PITCH + 4u * s, v);
    }
}
{% endmacro %}
{{ loader("k", "0u") }}
{{ loader("v", "KEYS") }}
fn seen(key: u32, query: u32) -> bool {
    return key {{ "<= query" if causal else "< KEYS_IN_ALL" }};
}
{% macro multiply_keys() %}
{% for c in range(key_tile // n) %}
        {
{% for o in range(over) %}
            var sums_{{ o }} = Sums();
{% endfor %}
{% for d in range(deep) %}
            {
                let key = subgroupMatrixLoad<Right>(&tile, {{ c * n * pitch + d * k }}u, true, PITCH);
{% for o in range(over) %}
                sums_{{ o }} = subgroupMatrixMultiplyAccumulate(q_{{ o }}_{{ d }}, key, sums_{{ o }});
{% endfor %}
            }
{% endfor %}
{% for o in range(over) %}
            subgroupMatrixStore(&scores, (my_rows + {{ o * m }}u) * SCORE_PITCH + {{ c * n }}u, sums_{{ o }}, false, SCORE_PITCH);
{% endfor %}
        }
{% endfor %}
{% endmacro %}
@compute @workgroup_size({{ size }})
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) index: u32) {
    let flat = id.x + id.y * {{ grid_x }}u;
    let first_query = flat % {{ blocks }}u * ROWS;
    let head = flat / {{ blocks }}u % {{ heads }}u;
    let b = flat / {{ blocks * heads }}u;
    if (b >= {{ batch }}u) {
        return;
    }
    let my_rows = index / {{ lanes }}u * {{ own_rows }}u;
    let lane = index % {{ lanes }}u;
    // Lane and keys of a tile: PER lanes look at a row, or a lane looks at several rows.
    let row = my_rows + lane{{ " / %du" % per if per > 1 }};
    let my_keys = {{ "lane %% %du * %du" % (per, part) if per > 1 else "0u" }};
{% if causal %}
    let end = min(first_query + ROWS, KEYS_IN_ALL);
{% else %}
    let end = KEYS_IN_ALL;
{% endif %}

{% for o in range(over) %}{% for d in range(deep) %}
    var q_{{ o }}_{{ d }}: Left;
{% endfor %}{% endfor %}
    for (var i = index; i < {{ rows * padded }}u; i += SIZE) {
        let s = i % {{ padded }}u;
        let r = b * QUERIES + min(first_query + i / {{ padded }}u, QUERIES - 1u);
        var v = vec4<f16>(0.0h);
        {{ guarded("q", "r", q_offset) | indent(8) }}
        put(i / {{ padded }}u * PITCH + 4u * s, v);
    }
    workgroupBarrier();
{% for o in range(over) %}{% for d in range(deep) %}
    q_{{ o }}_{{ d }} = subgroupMatrixLoad<Left>(&tile, (my_rows + {{ o * m }}u) * PITCH + {{ d * k }}u, false, PITCH);
{% endfor %}{% endfor %}

{% for r in range(rows_of_lane) %}
    var most_{{ r }} = -1e9;
    var total_{{ r }} = 0.0;
{% endfor %}
    for (var at = 0u; at < end; at += KEYS) {
        workgroupBarrier();
        load_k(b, head, at, index);
        workgroupBarrier();
{{ multiply_keys() }}
        workgroupBarrier();
        for (var j = 0u; j < {{ part }}u; j++) {
{% for r in range(rows_of_lane) %}
            if (seen(at + my_keys + j, first_query + row + {{ r * lanes }}u)) {
                most_{{ r }} = max(most_{{ r }}, scores[(row + {{ r * lanes }}u) * SCORE_PITCH + my_keys + j]);
            }
{% endfor %}
        }
    }
{% if per > 1 %}
    totals[index] = most_0;
    workgroupBarrier();
{% for p in range(per) %}
    most_0 = max(most_0, totals[index / {{ per }}u * {{ per }}u + {{ p }}u]);
{% endfor %}
{% endif %}

{% for o in range(over) %}{% for c in range(wide) %}
    var out_{{ o }}_{{ c }}: Sums;
{% endfor %}{% endfor %}
    for (var at = 0u; at < end; at += KEYS) {
        workgroupBarrier();
        load_k(b, head, at, index);
        load_v(b, head, at, index);
        workgroupBarrier();
{{ multiply_keys() }}
        workgroupBarrier();
        for (var j = 0u; j < {{ part }}u; j++) {
{% for r in range(rows_of_lane) %}
            {
                let score = scores[(row + {{ r * lanes }}u) * SCORE_PITCH + my_keys + j];
                let weight = exp(clamp((score - most_{{ r }}) * {{ scale }}, -80.0, 0.0));
                let kept = select(0.0, weight, seen(at + my_keys + j, first_query + row + {{ r * lanes }}u));
                total_{{ r }} += kept;
                weights[(row + {{ r * lanes }}u) * WEIGHT_PITCH + my_keys + j] = f16(kept);
            }
{% endfor %}
        }
        workgroupBarrier();
{% for d in range(key_tile // k) %}
        {
{% for o in range(over) %}
            let w_{{ o }} = subgroupMatrixLoad<Left>(&weights, (my_rows + {{ o * m }}u) * WEIGHT_PITCH + {{ d * k }}u, false, WEIGHT_PITCH);
{% endfor %}
{% for c in range(wide) %}
            let value_{{ c }} = subgroupMatrixLoad<Right>(&tile, {{ (key_tile + d * k) * pitch + c * n }}u, false, PITCH);
{% for o in range(over) %}
            out_{{ o }}_{{ c }} = subgroupMatrixMultiplyAccumulate(w_{{ o }}, value_{{ c }}, out_{{ o }}_{{ c }});
{% endfor %}
{% endfor %}
        }
{% endfor %}
    }
    workgroupBarrier();
{% for r in range(rows_of_lane) %}
    totals[{{ "index" if per > 1 else "row + %du" % (r * lanes) }}] = total_{{ r }};
{% endfor %}
{% set round = key_tile // n %}
{% for first in range(0, wide, round) %}
    workgroupBarrier();
{% set made = [round, wide - first] | min %}
{% for o in range(over) %}{% for c in range(made) %}
    subgroupMatrixStore(&scores, (my_rows + {{ o * m }}u) * SCORE_PITCH + {{ c * n }}u, out_{{ o }}_{{ first + c }}, false, SCORE_PITCH);
{% endfor %}{% endfor %}
    workgroupBarrier();
    for (var i = index; i < {{ rows * made * n // 4 }}u; i += SIZE) {
        let mine = i / {{ made * n // 4 }}u;
        let s = {{ first * n // 4 }}u + i % {{ made * n // 4 }}u;
        let start = mine * SCORE_PITCH + i % {{ made * n // 4 }}u * 4u;
        let sum = vec4<f32>(scores[start], scores[start + 1u], scores[start + 2u], scores[start + 3u]);
        let weight = {% for p in range(per) %}totals[mine * {{ per }}u + {{ p }}u]{{ " + " if not loop.last }}{% endfor %};
        if (first_query + mine < QUERIES{{ " && s < %du" % slices if wide * n > 4 * slices }}) {
            o_put(b * QUERIES + first_query + mine, head * {{ slices }}u + s, sum / weight);
        }
    }
{% endfor %}
}
