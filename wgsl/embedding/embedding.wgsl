// Rows of the embedding matrix for a run of token ids: x[t, c] = scale * W[tokens[offset + t], c].
// Bindings: tokens array<u32>; w (one part: rows first_row to first_row + rows of the matrix);
// x [T, C], written. One invocation makes four channels of one token. Tokens whose row lies in
// another part are left to that part's dispatch; ids past the vocabulary read its last row.

{% import "quant/decode.wgsl" as quant %}
{{ quant.types() }}
{{ quant.decoder("w", weights.w) }}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) index: u32) {
    let at = (id.x + id.y * {{ grid_x }}u) * 64u + index;
    let t = at / {{ slices }}u;
    let s = at % {{ slices }}u;
    if (t >= {{ tokens }}u) {
        return;
    }
    let row = min(tokens[{{ token_offset }}u + t], {{ vocabulary - 1 }}u);
{% if parts > 1 %}
    if (row < {{ first_row }}u || row >= {{ first_row + rows }}u) {
        return;
    }
{% endif %}
    x_put(t, s, w_load4(row - {{ first_row }}u, s){{ "" if scale == 1.0 else " * %r" % scale }});
}
