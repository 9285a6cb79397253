// Matrix times matrix on matrix units: f16 inputs, f32 sums, one subgroup a part of the tile.
// See matmul/parts.wgsl for what is computed. Bindings: x, w (u: the up rows, where they lie in
// another part), y, bias, residual.
//
// Tiles in workgroup memory are [position][column] in f16, with a pitch of whole 16-byte units that
// is no multiple of 128 bytes. A subgroup holds over x across matrices of sums; gated, the first
// half of those across are gate rows and the second half the up rows that belong to them. At the
// end each subgroup passes its sums through a corner of workgroup memory to finish them by rows.

{% import "quant/decode.wgsl" as quant %}
{% import "matmul/parts.wgsl" as parts with context %}
{% import "matvec/parts.wgsl" as rows with context %}
{% set float = quant.is_float(weights.w) %}
{% set m = shape.m %}{% set n = shape.n %}{% set k = shape.k %}
{% set lines = lines_of_subgroups %}
{% set columns = columns_of_subgroups %}
{% set pitch = 32 * step + 8 %}
{% set over = tile_tokens // lines // m %}
{% set across = tile_rows // columns // n %}
{% set half_rows = tile_rows // 2 %}
{% set corner = m * n * (1 if gate is none else 2) %}
alias Left = subgroup_matrix_left<f16, {{ k }}, {{ m }}>;
alias Right = subgroup_matrix_right<f16, {{ n }}, {{ k }}>;
alias Sums = subgroup_matrix_result<f32, {{ n }}, {{ m }}>;

var<workgroup> tile_x: array<f16, {{ tile_tokens * pitch }}>;
var<workgroup> tile_w: array<f16, {{ tile_rows * pitch }}>;
var<workgroup> corners: array<f32, {{ corner * lines * columns }}>;

{{ parts.decoders(bound) }}
{{ parts.read_x(true) }}
{{ parts.weight_row(1) }}
{{ rows.finish() }}
{% if not float %}
{{ parts.decoded("f16", by_bits) }}
{% endif %}
fn put_x(s: u32, p: u32, v: vec4<f16>) {
    let at = p * {{ pitch }}u + 4u * s;
    tile_x[at] = v.x;
    tile_x[at + 1u] = v.y;
    tile_x[at + 2u] = v.z;
    tile_x[at + 3u] = v.w;
}

fn put_w(s: u32, p: u32, v: vec4<f16>) {
    let at = p * {{ pitch }}u + 4u * s;
    tile_w[at] = v.x;
    tile_w[at + 1u] = v.y;
    tile_w[at + 2u] = v.z;
    tile_w[at + 3u] = v.w;
}

fn sums_of(corner: u32, i: u32) -> vec4<f32> {
    let at = corner + 4u * i;
    return vec4<f32>(corners[at], corners[at + 1u], corners[at + 2u], corners[at + 3u]);
}
{# First position of matrix a across in a subgroup's part of the tile, without the subgroup's own. #}
{% macro position(a) %}{{ a * n if a < across // 2 or across == 1 else half_rows + (a - across // 2) * n }}{% endmacro %}

@compute @workgroup_size({{ threads }})
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) index: u32) {
    let first_token = id.x * {{ tile_tokens }}u;
    let first_row = id.y * {{ parts.rows_made() }}u;
    let subgroup = index / {{ lanes }}u;
    let lane = index % {{ lanes }}u;
    let my_tokens = subgroup / {{ columns }}u * {{ over * m }}u;
    let my_rows = subgroup % {{ columns }}u * {{ half_rows // columns if across > 1 else n }}u;
    let my_corner = subgroup * {{ corner }}u;
{% for o in range(over) %}{% for a in range(across) %}
    var sums_{{ o }}_{{ a }}: Sums;
{% endfor %}{% endfor %}
    {{ parts.fetch_vars("f16", float, 1) | indent(4) }}
{% if prefetch %}
    {{ parts.fetch("0u", float) | indent(4) }}
{% endif %}
    for (var g = 0u; g < {{ groups }}u; g += {{ step }}u) {
        workgroupBarrier();
{% if not prefetch %}
        {{ parts.fetch("g", float) | indent(8) }}
{% endif %}
        {{ parts.stash("f16", float) | indent(8) }}
        workgroupBarrier();
{% if prefetch %}
        if (g + {{ step }}u < {{ groups }}u) {
            {{ parts.fetch("(g + %du)" % step, float) | indent(12) }}
        }
{% endif %}
{% for c in range(0, 32 * step, k) %}
        {
{% for o in range(over) %}
            let x_{{ o }} = subgroupMatrixLoad<Left>(&tile_x, (my_tokens + {{ o * m }}u) * {{ pitch }}u + {{ c }}u, false, {{ pitch }}u);
{% endfor %}
{% for a in range(across) %}
            let w_{{ a }} = subgroupMatrixLoad<Right>(&tile_w, (my_rows + {{ position(a) }}u) * {{ pitch }}u + {{ c }}u, true, {{ pitch }}u);
{% for o in range(over) %}
            sums_{{ o }}_{{ a }} = subgroupMatrixMultiplyAccumulate(x_{{ o }}, w_{{ a }}, sums_{{ o }}_{{ a }});
{% endfor %}
{% endfor %}
        }
{% endfor %}
    }
{% set outputs = across if gate is none else across // 2 %}
{% for o in range(over) %}{% for a in range(outputs) %}
    workgroupBarrier();
    subgroupMatrixStore(&corners, my_corner, sums_{{ o }}_{{ a }}, false, {{ n }}u);
{% if gate is not none %}
    subgroupMatrixStore(&corners, my_corner + {{ m * n }}u, sums_{{ o }}_{{ a + outputs }}, false, {{ n }}u);
{% endif %}
    workgroupBarrier();
    for (var at = lane; at < {{ m * n // 4 }}u; at += {{ lanes }}u) {
        let t = first_token + my_tokens + {{ o * m }}u + at / {{ n // 4 }}u;
        let i = first_row + my_rows + {{ position(a) }}u + at % {{ n // 4 }}u * 4u;
        if (t < {{ tokens }}u) {
            let sum_0 = sums_of(my_corner, at);
            let sum_1 = sums_of(my_corner{{ " + %du" % (m * n) if gate is not none }}, at);
            {{ parts.finish_vectors("t", "i", "sum_0", "sum_1") | indent(12) }}
        }
    }
{% endfor %}{% endfor %}
}
