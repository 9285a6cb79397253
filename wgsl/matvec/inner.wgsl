{#
One step of a lane: a piece of some rows times the activations that belong to it.

`step(at)` takes the index of the piece. Integer kinds: `words` code words of a group of 32 (so
4 / words lanes share a group), that is activations 4j to 4j+3 for as many j in 0..3 and j + 4.
Float kinds: one vector of codes (8 weights of 16 bits, 4 of 32). Adds to
    sum_<m>_<r>_<t>   matrix m (0: gate or only one, 1: up), row r, token t
    squares_<t>       of the activations, with a fused norm
Rows: at_<m>_<r>. Sums of the activations, which the minima need, are shared by all rows.
#}
{% import "quant/decode.wgsl" as quant %}
{% macro pieces() %}
{%- if quant.is_float(weights.w) -%}
{{ (slices + 1) // 2 if weights.w.kind != "f32" else slices }}
{%- else -%}
{{ cols // 32 * (4 // words) }}
{%- endif -%}
{% endmacro %}

{# Without a conversion instruction (see quant.wide) where `wide` is set. #}
{% macro codes(word) %}
{% if wide %}wide_codes({{ word }}){% else %}{{ quant.codes_f32(weights.w, word) }}{% endif %}
{%- endmacro %}

{% macro scaled() %}{{ " * wide_scale" if wide }}{% endmacro %}

{% macro read(name, t, s) %}
{% if staged %}
        let {{ name }} = staged_x[({{ s }}) + (({{ s }}) >> 3u)];
{% elif norm_eps is not none %}
        let {{ name }}_raw = x_in({{ t }}u, {{ s }});
        squares_{{ t }} += dot({{ name }}_raw, {{ name }}_raw);
        let {{ name }} = {{ name }}_raw * gain_in({{ s }}){{ scaled() }};
{% else %}
        let {{ name }} = x_in({{ t }}u, {{ s }}){{ scaled() }};
{% endif %}
{% endmacro %}

{% macro step(at) %}
{% if quant.is_float(weights.w) %}{{ step_float(at) }}{% else %}{{ step_integer(at) }}{% endif %}
{% endmacro %}

{% macro step_float(at) %}
    {
        let c = {{ at }};
{% if weights.w.kind == "f32" %}
{% for t in range(tokens) %}
{{ read("a_%d" % t, t, "c") }}
{% endfor %}
{% for m, name in names %}{% for r in range(rows) %}
        let q_{{ m }}_{{ r }} = {{ name }}_load4(at_{{ m }}_{{ r }}, c);
{% for t in range(tokens) %}
        sum_{{ m }}_{{ r }}_{{ t }} += dot(q_{{ m }}_{{ r }}, a_{{ t }});
{% endfor %}{% endfor %}{% endfor %}
{% else %}
{% for t in range(tokens) %}
{{ read("a_%d" % t, t, "2u * c") }}
{{ read("b_%d" % t, t, "2u * c + 1u") }}
{% endfor %}
{% for m, name in names %}{% for r in range(rows) %}
        let q_{{ m }}_{{ r }} = {{ name }}_load8(at_{{ m }}_{{ r }}, c);
{% for t in range(tokens) %}
        sum_{{ m }}_{{ r }}_{{ t }} += dot(q_{{ m }}_{{ r }}.a, a_{{ t }}) + dot(q_{{ m }}_{{ r }}.b, b_{{ t }});
{% endfor %}{% endfor %}{% endfor %}
{% endif %}
    }
{% endmacro %}

{% macro step_integer(at) %}
{% set split_halves = quant.halves_differ(weights.w) %}
{% set with_min = not quant.no_min(weights.w) %}
{% set ones = "wide_ones" if wide else "vec4<f32>(1.0)" %}
    {
        let piece = {{ at }};
{% if words == 4 %}
        let g = piece;
        let s = g * 8u;
        let s2 = s + 4u;
{% elif words == 2 %}
        let g = piece >> 1u;
        let h = (piece & 1u) * 2u;
        let s = g * 8u + h;
        let s2 = s + 4u;
{% else %}
        let g = piece >> 2u;
        let h = piece & 3u;
        // Every other group takes its upper half first: eight lanes then read 128 bytes of
        // activations in a row, and no two of them wait for one bank.
        let odd = (g & 1u) == 1u;
        let s = g * 8u + h + 4u * (g & 1u);
        let s2 = s ^ 4u;
{% endif %}
{% for t in range(tokens) %}
{% for k in range(words) %}
{{ read("a_%d_%d" % (t, k), t, "s + %du" % k) }}
{{ read("b_%d_%d" % (t, k), t, "s2 + %du" % k) }}
{% endfor %}
{% if with_min %}
        let total_a_{{ t }} = dot({% for k in range(words) %}{{ " + " if k }}a_{{ t }}_{{ k }}{% endfor %}, {{ ones }});
        let total_b_{{ t }} = dot({% for k in range(words) %}{{ " + " if k }}b_{{ t }}_{{ k }}{% endfor %}, {{ ones }});
{% endif %}
{% endfor %}
{% for m, name in names %}{% for r in range(rows) %}
        {
{% if words == 4 %}
            let q = {{ name }}_group(at_{{ m }}_{{ r }}, g);
            let scale = q.scale;
            let least = q.min;
{% for k in range(4) %}
            let lo_{{ k }} = {{ codes("q.lo[%d]" % k) }};
            let hi_{{ k }} = {{ codes("q.hi[%d]" % k) }};
{% endfor %}
{% else %}
            let f = {{ name }}_factors(at_{{ m }}_{{ r }}, g);
{% if words == 1 %}
            let q_0 = {{ name }}_pair(at_{{ m }}_{{ r }}, g, h);
            let lo_0 = {{ codes("select(q_0.x, q_0.y, odd)") }};
            let hi_0 = {{ codes("select(q_0.y, q_0.x, odd)") }};
            let scale = {{ "select(f.xy, f.yx, odd)" if split_halves else "f.xy" }};
            let least = {{ "select(f.zw, f.wz, odd)" if split_halves else "f.zw" }};
{% else %}
            let scale = f.xy;
            let least = f.zw;
{% for k in range(words) %}
            let q_{{ k }} = {{ name }}_pair(at_{{ m }}_{{ r }}, g, h + {{ k }}u);
            let lo_{{ k }} = {{ codes("q_%d.x" % k) }};
            let hi_{{ k }} = {{ codes("q_%d.y" % k) }};
{% endfor %}
{% endif %}
{% endif %}
{% for t in range(tokens) %}
            let p_{{ t }} = {% for k in range(words) %}{{ " + " if k }}dot(lo_{{ k }}, a_{{ t }}_{{ k }}){% endfor %};
            let n_{{ t }} = {% for k in range(words) %}{{ " + " if k }}dot(hi_{{ k }}, b_{{ t }}_{{ k }}){% endfor %};
{% set sum = "sum_%d_%d_%d" % (m, r, t) %}
{% if split_halves %}
            {{ sum }} += scale.x * p_{{ t }} + scale.y * n_{{ t }} - least.x * total_a_{{ t }} - least.y * total_b_{{ t }};
{% elif with_min %}
            {{ sum }} += scale.x * (p_{{ t }} + n_{{ t }}) - least.x * (total_a_{{ t }} + total_b_{{ t }});
{% else %}
            {{ sum }} += scale.x * (p_{{ t }} + n_{{ t }});
{% endif %}
{% endfor %}
        }
{% endfor %}{% endfor %}
    }
{% endmacro %}
