// Matrix times matrix by tiles in workgroup memory: any device, f32 or (half) f16 products.
// See matmul/parts.wgsl for what is computed. Bindings: x, w (u: the up rows, where they lie in
// another part), y, bias, residual.
//
// In each step the workgroup decodes `step` groups of 32 columns of its rows into workgroup memory,
// beside the same columns of its tokens, slice by slice ([slice][position], so that neighbouring
// lanes touch neighbouring banks). An invocation then holds lane_tokens x lane_rows sums. With
// `half`, products are added up in f16 within one group, and the groups in f32.

{% import "quant/decode.wgsl" as quant %}
{% import "matmul/parts.wgsl" as parts with context %}
{% import "matvec/parts.wgsl" as rows with context %}
{% set float = quant.is_float(weights.w) %}
{% set scalar = "f16" if half else "f32" %}
{% set vec4 = "vec4<%s>" % scalar %}
{% set columns = tile_rows // lane_rows %}
{% set lines = tile_tokens // lane_tokens %}
{% set pitch_w = tile_rows + pad_w %}
{% set pitch_x = tile_tokens + pad_x %}
{# Add the products of slice k of the tiles. #}
{% macro products(k) %}
let at_w = {{ k }} * {{ pitch_w }}u + column;
let at_x = {{ k }} * {{ pitch_x }}u + line;
{% for r in range(lane_rows) %}
let w_{{ r }} = tile_w[at_w + {{ r * columns }}u];
{% endfor %}
{% for t in range(lane_tokens) %}
let x_{{ t }} = tile_x[at_x + {{ t * lines }}u];
{% for r in range(lane_rows) %}
{% if half %}
{% set sum = "half_%d_%d" % (r, t) %}
{{ sum }} = fma(x_{{ t }}.zw, w_{{ r }}.zw, fma(x_{{ t }}.xy, w_{{ r }}.xy, {{ sum }}));
{% else %}
{% set sum = "sum_%d_%d" % (r, t) %}
{{ sum }} = fma(x_{{ t }}.x, w_{{ r }}.x, {{ sum }});
{{ sum }} = fma(x_{{ t }}.y, w_{{ r }}.y, {{ sum }});
{{ sum }} = fma(x_{{ t }}.z, w_{{ r }}.z, {{ sum }});
{{ sum }} = fma(x_{{ t }}.w, w_{{ r }}.w, {{ sum }});
{% endif %}
{% endfor %}
{% endfor %}
{% endmacro %}
var<workgroup> tile_w: array<{{ vec4 }}, {{ pitch_w * step * 8 }}>;
var<workgroup> tile_x: array<{{ vec4 }}, {{ pitch_x * step * 8 }}>;

{{ parts.decoders(bound) }}
{{ parts.read_x(half) }}
{{ parts.weight_row(columns) }}
{{ rows.finish() }}
{% if not float %}
{{ parts.decoded(scalar, false) }}
{% endif %}
fn put_x(s: u32, p: u32, v: {{ vec4 }}) {
    tile_x[s * {{ pitch_x }}u + p] = v;
}

fn put_w(s: u32, p: u32, v: {{ vec4 }}) {
    tile_w[s * {{ pitch_w }}u + p] = v;
}

@compute @workgroup_size({{ threads }})
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) index: u32) {
    let first_token = id.x * {{ tile_tokens }}u;
    let first_row = id.y * {{ parts.rows_made() }}u;
    let column = index % {{ columns }}u;
    let line = index / {{ columns }}u;
{% for t in range(lane_tokens) %}{% for r in range(lane_rows) %}
    var sum_{{ r }}_{{ t }} = 0.0;
{% endfor %}{% endfor %}
    {{ parts.fetch_vars(scalar, float, columns) | indent(4) }}
{% if prefetch %}
    {{ parts.fetch("0u", float) | indent(4) }}
{% endif %}
    for (var g = 0u; g < {{ groups }}u; g += {{ step }}u) {
        workgroupBarrier();
{% if not prefetch %}
        {{ parts.fetch("g", float) | indent(8) }}
{% endif %}
        {{ parts.stash(scalar, float) | indent(8) }}
        workgroupBarrier();
{% if prefetch %}
        if (g + {{ step }}u < {{ groups }}u) {
            {{ parts.fetch("(g + %du)" % step, float) | indent(12) }}
        }
{% endif %}
{% for in_step in range(step) %}
        {
{% if half %}
{% for t in range(lane_tokens) %}{% for r in range(lane_rows) %}
            var half_{{ r }}_{{ t }} = vec2<f16>(0.0);
{% endfor %}{% endfor %}
{% endif %}
{% if unroll == 8 %}
{% for k in range(8) %}
            {
                {{ products("%du" % (8 * in_step + k)) | indent(16) }}
            }
{% endfor %}
{% else %}
            for (var k = {{ 8 * in_step }}u; k < {{ 8 * in_step + 8 }}u; k++) {
                {{ products("k") | indent(16) }}
            }
{% endif %}
{% if half %}
{% for t in range(lane_tokens) %}{% for r in range(lane_rows) %}
            sum_{{ r }}_{{ t }} += f32(half_{{ r }}_{{ t }}.x) + f32(half_{{ r }}_{{ t }}.y);
{% endfor %}{% endfor %}
{% endif %}
        }
{% endfor %}
    }
    {{ parts.finish_tile(columns, lines) | indent(4) }}
}
