{#
Gates of feed-forward layers on f32 or vec4<f32>: `gate(act, type)` writes `fn activate(v)`.
Arguments of exp and tanh are clamped: drivers compile with fast math, where infinities go wrong.
#}
{% macro gate(act, type) %}
fn activate(v: {{ type }}) -> {{ type }} {
{% if act == "silu" %}
    return v / (1.0 + exp(clamp(-v, {{ type }}(-80.0), {{ type }}(80.0))));
{% elif act == "gelu" %}
    // 1 - erf by Abramowitz and Stegun 7.1.26, to within 1.5e-7.
    let t = 1.0 / (1.0 + 0.23164189 * abs(v));
    let series = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t;
    return max(v, {{ type }}(0.0)) - 0.5 * abs(v) * series * exp(max(-0.5 * v * v, {{ type }}(-80.0)));
{% else %}
    let inner = 0.7978845608028654 * v * (1.0 + 0.044715 * v * v);
    return 0.5 * v * (1.0 + tanh(clamp(inner, {{ type }}(-10.0), {{ type }}(10.0))));
{% endif %}
}
{% endmacro %}
