{#
Block decoders: how one row of a packed weight is read back, one macro for each kind of packing.

A *group* is 32 consecutive weights of a row; j (0..7) names four of them, 4j to 4j+3. Rows count from
the first row of the bound part. `types()` goes once into a shader, then for a weight bound as `w`
`decoder("w", weights.w)` writes

    w_load4(row, c4) -> vec4<f32>     weights 4*c4 to 4*c4+3, for every kind

and for the integer kinds, whose weight is  scale * code - min  with a scale and a minimum for each
half of 16:

    w_pair(row, g, w) -> vec2<u32>    x: the codes of j = w, y: of j = w + 4, one a byte
    w_factors(row, g) -> vec4<f32>    scales of both halves, then minima of both halves
    w_group(row, g) -> Group          both of these for the whole group

Codes are unsigned, but signed in q8_0: `codes_f32(kind, u)` makes four floats of four codes. The
float kinds have instead

    w_load8(row, c8) -> Eight         f16, bf16: one vector of codes; f32: two

Bindings: w_codes array<vec4<u32>> [rows, code_words / 4], w_scales array<u32> [rows, scale_words].
#}
{% macro types() %}
struct Group {
    lo: vec4<u32>, // codes of weights 0 to 15, one a byte
    hi: vec4<u32>, // codes of weights 16 to 31
    scale: vec2<f32>, // of each half
    min: vec2<f32>,
}

struct Eight {
    a: vec4<f32>,
    b: vec4<f32>,
}
{% endmacro %}

{% macro is_float(desc) %}{{ "1" if desc.kind in ["f32", "f16", "bf16"] else "" }}{% endmacro %}

{# Both halves of a group share one scale (and one minimum) but in q6_k. #}
{% macro halves_differ(desc) %}{{ "1" if desc.kind == "q6_k" else "" }}{% endmacro %}

{# Whether every minimum is zero, so that sums of the activations are not needed. #}
{% macro no_min(desc) %}{{ "1" if desc.kind == "q8_0" else "" }}{% endmacro %}

{% macro codes_f32(desc, word) %}
{% if desc.kind == "q8_0" %}vec4<f32>(unpack4xI8({{ word }})){% else %}vec4<f32>(unpack4xU8({{ word }})){% endif %}
{%- endmacro %}

{#
Four codes as floats without a conversion instruction, which NVIDIA runs at an eighth of the rate of
a sum: the bits go below the exponent of 2^23, which is then subtracted. Codes 1 and 3 come out 256
times too large; activations are scaled down for that beforehand, once for all rows (`wide_scale`).
#}
{% macro wide(desc) %}
fn wide_codes(word: u32) -> vec4<f32> {
{% if desc.kind == "q8_0" %}
    let code = word ^ 0x80808080u;
    let base = vec4<f32>(8388736.0, 8421376.0, 8388736.0, 8421376.0);
{% else %}
    let code = word;
    let base = vec4<f32>(8388608.0);
{% endif %}
    let bits = vec4<u32>(code, code, code >> 16u, code >> 16u) & vec4<u32>(0xffu, 0xff00u, 0xffu, 0xff00u);
    return bitcast<vec4<f32>>(bits | vec4<u32>(0x4b000000u)) - base;
}

const wide_scale = vec4<f32>(1.0, 0.00390625, 1.0, 0.00390625);
const wide_ones = vec4<f32>(1.0, 256.0, 1.0, 256.0);
{% endmacro %}

{% macro decoder(name, desc) %}
{% if is_float(desc) %}
{{ float_decoder(name, desc) }}
{% else %}
{{ factors(name, desc) }}
{{ pair(name, desc) }}
{{ group(name, desc) }}

fn {{ name }}_load4(row: u32, c4: u32) -> vec4<f32> {
    let g = c4 >> 3u;
    let half = (c4 >> 2u) & 1u;
    let codes = {{ name }}_pair(row, g, c4 & 3u)[half];
    let factors = {{ name }}_factors(row, g);
    // One rounding, as in the reference: the product alone may need 25 bits.
    return fma({{ codes_f32(desc, "codes") }}, vec4<f32>(factors[half]), vec4<f32>(-factors[2u + half]));
}
{% endif %}
{% endmacro %}

{% macro float_decoder(name, desc) %}
{% set vectors = desc.code_words // 4 %}
{% if desc.kind == "f32" %}
fn {{ name }}_load4(row: u32, c4: u32) -> vec4<f32> {
    return bitcast<vec4<f32>>({{ name }}_codes[row * {{ vectors }}u + c4]);
}

fn {{ name }}_load8(row: u32, c8: u32) -> Eight {
    return Eight({{ name }}_load4(row, 2u * c8), {{ name }}_load4(row, 2u * c8 + 1u));
}
{% else %}
fn {{ name }}_widen(a: u32, b: u32) -> vec4<f32> {
{% if desc.kind == "f16" %}
    return vec4<f32>(unpack2x16float(a), unpack2x16float(b));
{% else %}
    return bitcast<vec4<f32>>(vec4<u32>(a << 16u, a & 0xffff0000u, b << 16u, b & 0xffff0000u));
{% endif %}
}

fn {{ name }}_load4(row: u32, c4: u32) -> vec4<f32> {
    let at = row * {{ vectors }}u + (c4 >> 1u);
    let first = 2u * (c4 & 1u);
    return {{ name }}_widen({{ name }}_codes[at][first], {{ name }}_codes[at][first + 1u]);
}

fn {{ name }}_load8(row: u32, c8: u32) -> Eight {
    let q = {{ name }}_codes[row * {{ vectors }}u + c8];
    return Eight({{ name }}_widen(q.x, q.y), {{ name }}_widen(q.z, q.w));
}
{% endif %}
{% endmacro %}

{# (scale of both halves, minimum of both halves) of a group. #}
{% macro factors(name, desc) %}
fn {{ name }}_factors(row: u32, g: u32) -> vec4<f32> {
{% if desc.kind in ["q4_0", "q8_0"] %}
    let d = unpack2x16float({{ name }}_scales[row * {{ desc.scale_words }}u + (g >> 1u)])[g & 1u];
{% elif desc.kind == "q4_1" %}
    let dm = unpack2x16float({{ name }}_scales[row * {{ desc.scale_words }}u + g]);
{% elif desc.kind == "q5_0" %}
    let d = unpack2x16float({{ name }}_scales[row * {{ desc.scale_words }}u + 3u * (g >> 1u) + 2u])[g & 1u];
{% elif desc.kind == "q5_1" %}
    let dm = unpack2x16float({{ name }}_scales[row * {{ desc.scale_words }}u + 2u * g + 1u]);
{% elif desc.kind in ["q4_k", "q5_k"] %}
    let at = row * {{ desc.scale_words }}u + {{ 4 if desc.kind == "q4_k" else 12 }}u * (g >> 3u);
    let i = g & 7u;
    let dm = unpack2x16float({{ name }}_scales[at]);
    let six = ({{ name }}_scales[at + 1u + (i >> 2u)] >> (8u * (i & 3u))) & 255u;
    let four = ({{ name }}_scales[at + 3u] >> (4u * i)) & 15u;
    let scale = dm.x * f32(six & 63u);
    let least = dm.y * f32(((six >> 6u) << 4u) | four);
{% elif desc.kind == "q6_k" %}
    let at = row * {{ desc.scale_words }}u + 21u * (g >> 3u);
    let i = g & 7u;
    let two = unpack4xI8({{ name }}_scales[at + 16u + (i >> 1u)] >> (16u * (i & 1u)));
    let scale = unpack2x16float({{ name }}_scales[at + 20u]).x * vec2<f32>(two.xy);
{% endif %}
{% if desc.kind == "q4_0" %}
    return vec4<f32>(d, d, 8.0 * d, 8.0 * d);
{% elif desc.kind == "q8_0" %}
    return vec4<f32>(d, d, 0.0, 0.0);
{% elif desc.kind == "q5_0" %}
    return vec4<f32>(d, d, 16.0 * d, 16.0 * d);
{% elif desc.kind in ["q4_1", "q5_1"] %}
    return vec4<f32>(dm.x, dm.x, -dm.y, -dm.y);
{% elif desc.kind in ["q4_k", "q5_k"] %}
    return vec4<f32>(scale, scale, least, least);
{% else %}
    return vec4<f32>(scale, 32.0 * scale);
{% endif %}
}
{% endmacro %}

{# Index of the word with the fifth bits of a group (q6_k: of the first of two words). #}
{% macro high_index(desc) %}
{% if desc.kind == "q5_0" %}row * {{ desc.scale_words }}u + 3u * (g >> 1u) + (g & 1u)
{%- elif desc.kind == "q5_1" %}row * {{ desc.scale_words }}u + 2u * g
{%- elif desc.kind == "q5_k" %}row * {{ desc.scale_words }}u + 12u * (g >> 3u) + 4u + (g & 7u)
{%- elif desc.kind == "q6_k" %}row * {{ desc.scale_words }}u + 21u * (g >> 3u) + 2u * (g & 7u)
{%- endif %}
{% endmacro %}

{% macro pair(name, desc) %}
fn {{ name }}_pair(row: u32, g: u32, w: u32) -> vec2<u32> {
{% if desc.kind == "q8_0" %}
    let at = row * {{ desc.code_words // 4 }}u + 2u * g;
    return vec2<u32>({{ name }}_codes[at][w], {{ name }}_codes[at + 1u][w]);
{% else %}
    let q = {{ name }}_codes[row * {{ desc.code_words // 4 }}u + g][w];
    let low = vec2<u32>(q, q >> 4u) & vec2<u32>(0x0f0f0f0fu);
{% if desc.kind in ["q5_0", "q5_1", "q5_k"] %}
    let h = {{ name }}_scales[{{ high_index(desc) }}] >> w;
    return low | ((vec2<u32>(h << 4u, h) & vec2<u32>(0x10101010u)));
{% elif desc.kind == "q6_k" %}
    let at = {{ high_index(desc) }};
    let h = vec2<u32>({{ name }}_scales[at], {{ name }}_scales[at + 1u]) >> vec2<u32>(2u * w);
    return low | ((h & vec2<u32>(0x03030303u)) << vec2<u32>(4u));
{% else %}
    return low;
{% endif %}
{% endif %}
}
{% endmacro %}

{% macro group(name, desc) %}
fn {{ name }}_group(row: u32, g: u32) -> Group {
    let f = {{ name }}_factors(row, g);
{% if desc.kind == "q8_0" %}
    let at = row * {{ desc.code_words // 4 }}u + 2u * g;
    return Group({{ name }}_codes[at], {{ name }}_codes[at + 1u], f.xy, f.zw);
{% else %}
    let q = {{ name }}_codes[row * {{ desc.code_words // 4 }}u + g];
    let lo = q & vec4<u32>(0x0f0f0f0fu);
    let hi = (q >> vec4<u32>(4u)) & vec4<u32>(0x0f0f0f0fu);
{% if desc.kind in ["q5_0", "q5_1", "q5_k"] %}
    let h = vec4<u32>({{ name }}_scales[{{ high_index(desc) }}]) >> vec4<u32>(0u, 1u, 2u, 3u);
    let fifth = vec4<u32>(0x10101010u);
    return Group(lo | ((h << vec4<u32>(4u)) & fifth), hi | (h & fifth), f.xy, f.zw);
{% elif desc.kind == "q6_k" %}
    let at = {{ high_index(desc) }};
    let shift = vec4<u32>(0u, 2u, 4u, 6u);
    let two = vec4<u32>(0x03030303u);
    let h0 = (vec4<u32>({{ name }}_scales[at]) >> shift) & two;
    let h1 = (vec4<u32>({{ name }}_scales[at + 1u]) >> shift) & two;
    return Group(lo | (h0 << vec4<u32>(4u)), hi | (h1 << vec4<u32>(4u)), f.xy, f.zw);
{% else %}
    return Group(lo, hi, f.xy, f.zw);
{% endif %}
{% endif %}
}
{% endmacro %}
