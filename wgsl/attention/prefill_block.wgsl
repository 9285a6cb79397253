    // Which rows this workgroup takes (a row is a token and one of the query heads that share the KV
    // head), and which keys they attend to: KEYS at a time from begin to end.
    let count = min(state[COUNT], {{ tokens }}u);
    let position = state[POSITION];
    // The last rows see the most keys: they start first.
    let first_row = ({{ blocks - 1 }}u - id.x) * ROWS;
    if (first_row >= count * GROUP) {
        return;
    }
    let kv_head = id.y;
    let last_token = min((first_row + ROWS - 1u) / GROUP, count - 1u);
    let end = min(position + last_token + 1u, POSITIONS);
{% if window %}
    let lowest = position + first_row / GROUP + 1u;
    let begin = (lowest - min(lowest, {{ window }}u)) / KEYS * KEYS;
{% else %}
    let begin = 0u;
{% endif %}
