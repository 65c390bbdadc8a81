"""Known mistakes of topic 06. Read as text by `autograder.slips`; ids are those of the catalogue of mistakes."""

from autograder.slips import edit, slip

# -- distances -------------------------------------------------------------------------------------------------------

edit(
    "RD-01",
    "The distances are query minus key. Everywhere in this course they are key minus query: a later key is positive.",
    ("keys - queries.unsqueeze(-1)", "queries.unsqueeze(-1) - keys"),
)
edit(
    "RD-02",
    "The queries start at position 0 also where there are more keys. The last query stands where the last key stands.",
    ("torch.arange(L, device=device) + (S - L)", "torch.arange(L, device=device)"),
)
edit(
    "RD-03",
    "The queries are moved the wrong way when S and L differ. Try L=1, S=4: the distance of the last key must be 0.",
    ("+ (S - L)", "+ (L - S)"),
)
edit(
    "RD-04",
    "The distances lost their sign. A key before the query and a key after it are told apart by it.",
    ("keys - queries.unsqueeze(-1)", "(keys - queries.unsqueeze(-1)).abs()"),
)
edit(
    "RD-05",
    "The argument `device` is ignored: on a GPU the distances would stay on the CPU.",
    ("queries = torch.arange(L, device=device)", "queries = torch.arange(L)"),
    ("keys = torch.arange(S, device=device)", "keys = torch.arange(S)"),
)
edit(
    "RD-06",
    "The distances are floating-point numbers. They become indices of a table, so they must be integers.",
    ("keys - queries.unsqueeze(-1)", "(keys - queries.unsqueeze(-1)).float()"),
)
edit(
    "RD-07",
    "The matrix has the keys in its rows and the queries in its columns. The shape is (L, S).",
    ("keys - queries.unsqueeze(-1)", "keys.unsqueeze(-1) - queries"),
)
edit(
    "RD-08",
    "The distances are stored in 8 bits. They wrap around beyond 127.",
    ("keys - queries.unsqueeze(-1)", "(keys - queries.unsqueeze(-1)).to(torch.int8)"),
)
edit(
    "RD-09",
    "The distances stop at 0: keys after the query must get positive distances.",
    ("keys - queries.unsqueeze(-1)", "(keys - queries.unsqueeze(-1)).clamp(max=0)"),
)
edit(
    "RD-10",
    "The argument S is ignored, so that the matrix is always square.",
    ("S = L if S is None else S", "S = L"),
)

# -- shaw ------------------------------------------------------------------------------------------------------------

edit(
    "SH-01",
    "The table is read with query minus key, so left and right are swapped. Row K+1 belongs to the next key.",
    ("rows = distances.clamp(-limit, limit) + limit", "rows = limit - distances.clamp(-limit, limit)"),
)
edit(
    "SH-02",
    "The distances are clipped to [-K, K-1]: the last row of the table is never used. Both ends belong to the range.",
    ("distances.clamp(-limit, limit)", "distances.clamp(-limit, limit - 1)"),
)
edit(
    "SH-04",
    "The distances are not clipped. A negative index reads the table from its end without an error.",
    ("distances.clamp(-limit, limit) + limit", "distances + limit"),
)
edit(
    "SH-04b",
    "The distances are clipped at the left end only. Keys far after the query run out of the table.",
    ("distances.clamp(-limit, limit)", "distances.clamp(min=-limit)"),
)
edit(
    "SH-05",
    "The table is read by the absolute distance. Before and after then share a row, and half of the table is unused.",
    ("distances.clamp(-limit, limit) + limit", "distances.abs().clamp(max=limit) + limit"),
)
edit(
    "SH-05b",
    "The table is read by the absolute distance, from row 0 on. Row K is distance 0, and the sign matters.",
    ("distances.clamp(-limit, limit) + limit", "distances.abs().clamp(max=limit)"),
)
edit(
    "SH-06",
    "The distances are moved up by L-1, not by K. Which row of the table is distance 0?",
    ("distances.clamp(-limit, limit) + limit", "distances.clamp(-limit, limit) + q.size(-2) - 1"),
)
edit(
    "SH-06b",
    "The distances are moved up by S-1, not by K. Which row of the table is distance 0?",
    ("distances.clamp(-limit, limit) + limit", "distances.clamp(-limit, limit) + k.size(-2) - 1"),
)
edit(
    "SH-06c",
    "K is not added to the clipped distances. Negative indices then read the table from its end without an error.",
    ("distances.clamp(-limit, limit) + limit", "distances.clamp(-limit, limit)"),
)
edit(
    "SH-06d",
    "K is added before the clip, and the clip is still to [-K, K]. After the shift the range starts at 0.",
    ("distances.clamp(-limit, limit) + limit", "(distances + limit).clamp(-limit, limit)"),
)
edit(
    "SH-06e",
    "K is read off wrongly: a table of 2K+1 rows has K rows on each side of the middle one.",
    ("limit = (key_table.size(0) - 1) // 2", "limit = (key_table.size(0) + 1) // 2"),
)
edit(
    "SH-06f",
    "K is taken one too small, so that the table's middle is missed.",
    ("limit = (key_table.size(0) - 1) // 2", "limit = max(key_table.size(0) // 2 - 1, 0)"),
)
edit(
    "SH-08",
    "The queries start at position 0 also where there are more keys than queries. They are the last ones.",
    (
        "distances = relative_distances(q.size(-2), k.size(-2), device=q.device)\n    rows",
        "distances = torch.arange(k.size(-2), device=q.device) - torch.arange(q.size(-2), device=q.device)[:, None]\n"
        "    rows",
    ),
)
edit(
    "SH-09",
    "The position term pairs the keys with the table. It is the query that meets the vector of the distance.",
    ('torch.einsum("...ld,lsd->...ls", q, key_table[rows])', 'torch.einsum("...sd,lsd->...ls", k, key_table[rows])'),
)
edit(
    "SH-09b",
    "Query and key are swapped in the position term, so that its matrix is transposed.",
    ('torch.einsum("...ld,lsd->...ls", q, key_table[rows])', 'torch.einsum("...ld,sld->...ls", q, key_table[rows])'),
)
edit(
    "SH-10",
    "Each key gets one vector, whoever asks. The vector must depend on the distance from the query.",
    ('torch.einsum("...ld,lsd->...ls", q, key_table[rows])', "q @ key_table[rows[0]].T"),
)
edit(
    "SH-10b",
    "The position vectors are summed over the keys before the product, so that they no longer tell keys apart.",
    (
        'torch.einsum("...ld,lsd->...ls", q, key_table[rows])',
        'torch.einsum("...ld,ld->...l", q, key_table[rows].sum(1)).unsqueeze(-1)',
    ),
)
edit(
    "SH-12",
    "The value table is not used: each value must also be moved by the vector of its distance.",
    ("if value_table is not None:", "if False:"),
)
edit(
    "SH-12b",
    "The weights are scattered into one sum for each row of the value table, but scatter overwrites. Where several keys "
    "share a row their weights have to be added.",
    (
        'torch.einsum("...ls,lsv->...lv", weights, value_table[rows])',
        "weights.new_zeros(*weights.shape[:-1], 2 * limit + 1).scatter(-1, rows.expand_as(weights), weights) @ value_table",
    ),
)
edit(
    "SH-13",
    "The values are moved by the key table. There is a second table for them.",
    ("weights, value_table[rows])\n    return output", "weights, key_table[rows])\n    return output"),
)
edit(
    "SH-14",
    "The value vectors are added to the values themselves, the same for every query. They depend on the distance.",
    ('output + torch.einsum("...ls,lsv->...lv", weights, value_table[rows])', "weights @ (v + value_table[rows[-1]])"),
)
edit(
    "SH-15",
    "The value table is read with the sign of the distance turned round.",
    ("weights, value_table[rows])", "weights, value_table.flip(0)[rows])"),
)
edit(
    "SH-15b",
    "Query and key are swapped in the value term: the weight of (i, j) meets the vector of (j, i).",
    ('"...ls,lsv->...lv", weights', '"...ls,slv->...lv", weights'),
)
edit(
    "SH-15c",
    "The value term does not use the weights: it sums the vectors of all distances alike.",
    ('torch.einsum("...ls,lsv->...lv", weights, value_table[rows])', "value_table[rows].sum(dim=1)"),
)
edit(
    "SH-15d",
    "The value term is weighted with the scores. It needs the weights that come out of the softmax.",
    ('"...ls,lsv->...lv", weights', '"...ls,lsv->...lv", scores'),
)
edit(
    "SH-15e",
    "The value term uses weights without the mask, so that blocked keys still move the output.",
    ('"...ls,lsv->...lv", weights', '"...ls,lsv->...lv", masked_softmax(scores)'),
)


@slip("SH-18", "The rows are built once for 64 positions and sliced. A longer sequence runs out of them.")
def shaw_attention(q, k, v, key_table, value_table=None, mask=None):
    limit = (key_table.size(0) - 1) // 2
    longest, L, S = 64, q.size(-2), k.size(-2)
    places = torch.arange(longest, device=q.device)
    rows = (places - places[:, None]).clamp(-limit, limit)[max(S - L, 0) : max(S - L, 0) + L, :S] + limit
    if S < L:
        rows = relative_distances(L, S, device=q.device).clamp(-limit, limit) + limit
    scores = (q @ k.mT + torch.einsum("bhld,lsd->bhls", q, key_table[rows])) / math.sqrt(q.size(-1))
    weights = masked_softmax(scores, mask)
    output = weights @ v
    if value_table is not None:
        output = output + torch.einsum("bhls,lsd->bhld", weights, value_table[rows])
    return output, weights


edit(
    "SH-20",
    "The position term stands outside the scale. Both terms of the score are divided by the root of d.",
    ("scores = (content + position) / math.sqrt(q.size(-1))", "scores = content / math.sqrt(q.size(-1)) + position"),
)
edit(
    "SH-21",
    "Only the position term is scaled. Both terms of the score are divided by the root of d.",
    ("scores = (content + position) / math.sqrt(q.size(-1))", "scores = content + position / math.sqrt(q.size(-1))"),
)
edit(
    "SH-22",
    "The scores are not scaled. Divide them by the root of d.",
    ("scores = (content + position) / math.sqrt(q.size(-1))", "scores = content + position"),
)
edit(
    "SH-23",
    "The scale is taken from the size of the values. It belongs to queries and keys.",
    ("scores = (content + position) / math.sqrt(q.size(-1))", "scores = (content + position) / math.sqrt(v.size(-1))"),
)
edit(
    "SH-24",
    "The scores are divided by d, not by its root.",
    ("scores = (content + position) / math.sqrt(q.size(-1))", "scores = (content + position) / q.size(-1)"),
)
edit(
    "SH-24b",
    "The scale is taken from the number of keys. It belongs to the size of a query.",
    ("scores = (content + position) / math.sqrt(q.size(-1))", "scores = (content + position) / math.sqrt(k.size(-2))"),
)
edit(
    "SH-25",
    "The content term is missing: the score is q with k plus q with the vector of the distance.",
    ("scores = (content + position)", "scores = position"),
)
edit(
    "SH-26",
    "The table of keys is not used: the weights are those of plain attention.",
    ("scores = (content + position)", "scores = content"),
)
edit(
    "SH-27",
    "The softmax runs over the queries. The weights of one query must sum to 1 over the keys.",
    ("weights = masked_softmax(scores, mask)", "weights = masked_softmax(scores, mask).softmax(-2)"),
)
edit(
    "SH-28",
    "The mask is ignored.",
    ("masked_softmax(scores, mask)", "masked_softmax(scores)"),
)
edit(
    "SH-29",
    "The mask is read the wrong way round: True means may attend.",
    ("masked_softmax(scores, mask)", "masked_softmax(scores, None if mask is None else mask == 0)"),
)
edit(
    "SH-30",
    "The mask is multiplied into the weights after the softmax, so that they no longer sum to 1.",
    ("masked_softmax(scores, mask)", "masked_softmax(scores) * (1 if mask is None else mask != 0)"),
)
edit(
    "SH-31",
    "A row that may attend nowhere becomes NaN. Its weights must be zeros.",
    (
        "masked_softmax(scores, mask)",
        'F.softmax(scores if mask is None else scores.masked_fill(mask == 0, float("-inf")), dim=-1)',
    ),
)
edit(
    "SH-32",
    "A row that may attend nowhere gets equal weights, since all its scores are the same. It must be zeros.",
    (
        "masked_softmax(scores, mask)",
        "F.softmax(scores if mask is None else scores.masked_fill(mask == 0, torch.finfo(scores.dtype).min), dim=-1)",
    ),
)
edit(
    "SH-33",
    "The mask only works when it is boolean. An integer mask means the same, and 0 blocks.",
    (
        "masked_softmax(scores, mask)",
        "masked_softmax(scores if mask is None else scores.masked_fill(~mask, -1e4), mask)",
    ),
)
edit(
    "SH-34",
    "Rows that may attend nowhere are repaired in the output. The gradient behind it is still NaN: repair the weights.",
    (
        "masked_softmax(scores, mask)",
        'F.softmax(scores if mask is None else scores.masked_fill(mask == 0, float("-inf")), dim=-1)',
    ),
    ("    return output, weights", "    return output.nan_to_num(0.0), weights.nan_to_num(0.0)"),
)
edit(
    "SH-35",
    "Blocked keys get the score 0, which still gives them weight. It takes -inf to block a key.",
    ("masked_softmax(scores, mask)", "F.softmax(scores if mask is None else scores * (mask != 0), dim=-1)"),
)
edit(
    "SH-35b",
    "A blocked key gets a large negative score that other scores can fall below. Only -inf is always below.",
    ("masked_softmax(scores, mask)", "masked_softmax(scores if mask is None else scores - 1e4 * (mask == 0))"),
    (
        "    return output, weights",
        "    some = True if mask is None else (mask != 0).any(-1, keepdim=True)\n"
        "    return output * some, weights * some",
    ),
)
edit(
    "SH-35c",
    "In an integer mask only 1 lets a key through. Every number but 0 means may attend.",
    ("masked_softmax(scores, mask)", "masked_softmax(scores, None if mask is None else mask == 1)"),
)
edit(
    "SH-36",
    "The table is detached, so that it can't learn.",
    ("q, key_table[rows])", "q, key_table[rows].detach())"),
)
edit(
    "SH-36b",
    "The value table is detached, so that it can't learn.",
    ("weights, value_table[rows])", "weights, value_table[rows].detach())"),
)
edit(
    "SH-37",
    "The result is float32 whatever came in. Return the dtype of the inputs.",
    ("    return output, weights", "    return output.float(), weights.float()"),
)
edit(
    "SH-38",
    "The pair is the wrong way round: the output comes first.",
    ("    return output, weights", "    return weights, output"),
)
edit(
    "SH-39",
    "Only the output is returned. The exercise asks for the pair (output, weights).",
    ("    return output, weights", "    return output"),
)
edit(
    "SH-40",
    "The scores are returned where the weights are asked for.",
    ("    return output, weights", "    return output, scores"),
)
edit(
    "SH-41",
    "The queries are scaled in place, which changes the caller's tensor.",
    ("scores = (content + position) / math.sqrt(q.size(-1))", "scores = content + position"),
    ("content = q @ k.transpose(-2, -1)", "q.data.div_(math.sqrt(q.size(-1)))\n    content = q @ k.transpose(-2, -1)"),
)
edit(
    "SH-42",
    "A tensor is made on the CPU. On a GPU it meets scores of another device: pass device=q.device.",
    (
        "scores = (content + position) / math.sqrt(q.size(-1))",
        "scores = (content + position) / math.sqrt(q.size(-1)) + torch.zeros(q.size(-2), k.size(-2), dtype=q.dtype)",
    ),
)
edit(
    "SH-43",
    "The position term is counted twice: once as q with the table and once with the table added to the keys.",
    ("scores = (content + position)", "scores = (content + 2 * position)"),
)


@slip(
    "SH-44",
    "The position scores are computed with float64 numbers from numpy, so no gradient reaches the table.",
    same_as=("SH-36",),
)
def shaw_attention(q, k, v, key_table, value_table=None, mask=None):
    limit = (key_table.size(0) - 1) // 2
    rows = relative_distances(q.size(-2), k.size(-2), device=q.device).clamp(-limit, limit) + limit
    table = torch.as_tensor(key_table.detach().double().numpy(), dtype=q.dtype)
    scores = (q @ k.mT + torch.einsum("bhld,lsd->bhls", q, table[rows])) / math.sqrt(q.size(-1))
    weights = masked_softmax(scores, mask)
    output = weights @ v
    if value_table is not None:
        output = output + torch.einsum("bhls,lsd->bhld", weights, value_table[rows])
    return output, weights


# -- relative shift --------------------------------------------------------------------------------------------------

edit(
    "SF-01",
    "The shift goes the wrong way: each row must start further left than the row above it.",
    (
        "columns = relative_distances(length, device=x.device) + length - 1",
        "columns = length - 1 - relative_distances(length, device=x.device)",
    ),
)
edit(
    "SF-02",
    "Nothing is shifted: every row takes the first L columns.",
    ("x.gather(-1, columns.expand(*x.shape[:-1], length))", "x[..., :length]"),
)
edit(
    "SF-02b",
    "Nothing is shifted: every row takes the last L columns. That is right for row 0 only.",
    ("x.gather(-1, columns.expand(*x.shape[:-1], length))", "x[..., length - 1 :]"),
)
edit(
    "SF-03",
    "The columns are one off: with L=1 the only entry must come back.",
    (
        "columns = relative_distances(length, device=x.device) + length - 1",
        "columns = relative_distances(length, device=x.device) + length",
    ),
)
edit(
    "SF-04",
    "All rows are read from the first query. Row i of the result comes from row i of x.",
    ("x.gather(-1, columns.expand(*x.shape[:-1], length))", "x[..., 0, :][..., columns]"),
)
edit(
    "SF-05",
    "The result is transposed: rows are queries, columns are keys.",
    ("x.gather(-1, columns.expand(*x.shape[:-1], length))", "x.gather(-1, columns.expand(*x.shape[:-1], length)).mT"),
)
edit(
    "SF-06",
    "Entries above the diagonal are set to 0. Without a causal mask they are needed.",
    (
        "x.gather(-1, columns.expand(*x.shape[:-1], length))",
        "x.gather(-1, columns.expand(*x.shape[:-1], length)).tril()",
    ),
)
edit(
    "SF-07",
    "The gradient is cut: the shift must stay in the graph.",
    ("x.gather(-1, columns", "x.detach().gather(-1, columns"),
)
edit(
    "SF-08",
    "The index is made on the CPU. On a GPU it meets data of another device.",
    ("columns = relative_distances(length, device=x.device)", "columns = relative_distances(length)"),
)
edit(
    "SF-09",
    "The shift returns float32 whatever came in.",
    ("x.gather(-1, columns", "x.float().gather(-1, columns"),
)


@slip("SF-10", "The shift only takes tensors of four dimensions. Address axes from the end: -2, -1.")
def relative_shift(x):
    B, H, L, W = x.shape
    x = F.pad(x, (0, 1)).reshape(B, H, L * (W + 1))[:, :, L - 1 :]
    return F.pad(x, (0, L * (2 * L - 1) - x.size(-1))).reshape(B, H, L, W)[..., :L]


@slip(
    "SH-16",
    "This is the shift of a causal model, with columns up to distance 0 only. Above the diagonal it leaves entries of "
    "the next row.",
)
def relative_shift(x):
    L = x.size(-2)
    lead = x.shape[:-2]
    left = F.pad(x[..., :L], (1, 0)).reshape(*lead, L + 1, L)
    return left[..., 1:, :]


@slip("SH-17", "The extra column stands on the wrong side, so that the rows move by one entry too many or too few.")
def relative_shift(x):
    L = x.size(-2)
    lead = x.shape[:-2]
    flat = F.pad(x, (1, 0)).reshape(*lead, 2 * L * L)
    flat = F.pad(flat[..., L - 1 :], (0, L - 1))[..., : L * (2 * L - 1)]
    return flat.reshape(*lead, L, 2 * L - 1)[..., :L]


@slip("SH-17b", "After flattening, the wrong end is cut off. Which entry of x must come first?")
def relative_shift(x):
    L = x.size(-2)
    lead = x.shape[:-2]
    flat = F.pad(x, (0, 1)).reshape(*lead, 2 * L * L)[..., : L * (2 * L - 1)]
    return flat.reshape(*lead, L, 2 * L - 1)[..., :L]


@slip("SF-11", "The rows are rolled the wrong way, so that entries come back in from the other side.")
def relative_shift(x):
    L = x.size(-2)
    rows = [torch.roll(x[..., i, :], -i, dims=-1)[..., L - 1 :] for i in range(L)]
    return torch.stack(rows, dim=-2)


@slip("SF-12", "The view assumes that x lies in memory row after row. A transposed x gives wrong entries silently.")
def relative_shift(x):
    L, W = x.shape[-2:]
    lead = x.shape[:-2]
    plain = torch.empty(x.shape).stride()[:-2]
    return x.as_strided((*lead, L, L), (*plain, W - 1, 1), x.storage_offset() + L - 1)


# -- transformer-xl --------------------------------------------------------------------------------------------------

edit(
    "XL-01",
    "The distances run the wrong way along r. Column 0 is the farthest key before the query, not the farthest after.",
    ("position = by_distance.gather", "position = by_distance.flip(-1).gather"),
)
edit(
    "XL-02",
    "The position term is not shifted: every query takes the same columns, as if all stood at the same place.",
    ("by_distance.gather(-1, columns.expand_as(content))", "by_distance[..., : k.size(-2)]"),
)
edit(
    "XL-02b",
    "The position term is not shifted: every query takes the last columns, which are right for query 0 only.",
    ("by_distance.gather(-1, columns.expand_as(content))", "by_distance[..., q.size(-2) - 1 :]"),
)


@slip(
    "XL-04",
    "The shift is the one of a causal model. Keys after the query get entries of the next row: all of r is needed.",
)
def transformer_xl_scores(q, k, r, content_bias, position_bias):
    L, S = q.size(-2), k.size(-2)
    content = (q + content_bias[:, None]) @ k.mT
    position = (q + position_bias[:, None]) @ r[:, :S].mT
    lead = position.shape[:2]
    position = F.pad(position, (1, 0)).reshape(*lead, S + 1, L)[:, :, 1:].reshape(*lead, L, S)
    return (content + position) / math.sqrt(q.size(-1))


edit(
    "XL-05",
    "The queries start at position 0 also where there are more keys. Old keys then get the wrong distances.",
    (
        "columns = relative_distances(q.size(-2), k.size(-2), device=q.device) + k.size(-2) - 1",
        "columns = (torch.arange(k.size(-2), device=q.device) - torch.arange(q.size(-2), device=q.device)[:, None]"
        " + k.size(-2) - 1).clamp(max=r.size(-2) - 1)",
    ),
)
edit(
    "XL-06",
    "The columns of r are one off: distance 0 is column S-1.",
    ("device=q.device) + k.size(-2) - 1", "device=q.device).add(k.size(-2)).clamp(max=r.size(-2) - 1)"),
)
edit(
    "XL-06b",
    "The columns of r are one off to the left: distance 0 is column S-1.",
    ("device=q.device) + k.size(-2) - 1", "device=q.device).add(k.size(-2) - 2).clamp(min=0)"),
)
edit(
    "XL-07",
    "Distance 0 is looked for at column L-1. The columns of r count from the number of keys.",
    ("device=q.device) + k.size(-2) - 1", "device=q.device).add(q.size(-2) - 1).clamp(0, r.size(-2) - 1)"),
)
edit(
    "XL-08",
    "Only the content term is scaled. Both terms are divided by the root of d.",
    ("return (content + position) / math.sqrt(q.size(-1))", "return content / math.sqrt(q.size(-1)) + position"),
)
edit(
    "XL-08b",
    "Only the position term is scaled. Both terms are divided by the root of d.",
    ("return (content + position) / math.sqrt(q.size(-1))", "return content + position / math.sqrt(q.size(-1))"),
)
edit(
    "XL-08c",
    "The scores are not scaled. Divide them by the root of d.",
    ("return (content + position) / math.sqrt(q.size(-1))", "return content + position"),
)
edit(
    "XL-08d",
    "The scale is the root of d_model. The size that counts is that of one head.",
    (
        "return (content + position) / math.sqrt(q.size(-1))",
        "return (content + position) / math.sqrt(q.size(1) * q.size(-1))",
    ),
)
edit(
    "XL-08e",
    "The scores are divided by d, not by its root.",
    ("return (content + position) / math.sqrt(q.size(-1))", "return (content + position) / q.size(-1)"),
)


@slip("XL-09", "The position term uses the keys' bias and the position vectors in place of the keys for both terms.")
def transformer_xl_scores(q, k, r, content_bias, position_bias):
    position = (q + position_bias[:, None]) @ r.mT
    columns = relative_distances(q.size(-2), k.size(-2), device=q.device) + k.size(-2) - 1
    position = position.gather(-1, columns.expand(*q.shape[:-1], k.size(-2)))
    return (position + position) / math.sqrt(q.size(-1))


edit(
    "XL-20",
    "The two biases are swapped: u belongs to the content term, w to the position term.",
    ("(q + content_bias.unsqueeze(-2))", "(q + position_bias.unsqueeze(-2))"),
    ("(q + position_bias.unsqueeze(-2)) @ r", "(q + content_bias.unsqueeze(-2)) @ r"),
)
edit(
    "XL-21",
    "The content bias u is missing.",
    ("(q + content_bias.unsqueeze(-2))", "q"),
)
edit(
    "XL-22",
    "The position bias w is missing.",
    ("(q + position_bias.unsqueeze(-2))", "q"),
)
edit(
    "XL-23",
    "Both terms use the content bias. The position term has a bias of its own.",
    ("(q + position_bias.unsqueeze(-2))", "(q + content_bias.unsqueeze(-2))"),
)
edit(
    "XL-23b",
    "Both terms use the position bias. The content term has a bias of its own.",
    ("(q + content_bias.unsqueeze(-2))", "(q + position_bias.unsqueeze(-2))"),
)
edit(
    "XL-24",
    "The content bias is added to the keys. It stands beside the query: u meets k.",
    (
        "content = (q + content_bias.unsqueeze(-2)) @ k.transpose(-2, -1)",
        "content = q @ (k + content_bias.unsqueeze(-2)).transpose(-2, -1)",
    ),
)
edit(
    "XL-24b",
    "The position bias is added to r. It stands beside the query: w meets r.",
    (
        "by_distance = (q + position_bias.unsqueeze(-2)) @ r.transpose(-2, -1)",
        "by_distance = q @ (r + position_bias.unsqueeze(-2)).transpose(-2, -1)",
    ),
)
edit(
    "XL-25",
    "The biases meet the wrong axis: without an axis of size 1, head h's bias is added to query h.",
    ("(q + content_bias.unsqueeze(-2))", "(q + content_bias)"),
    ("(q + position_bias.unsqueeze(-2))", "(q + position_bias)"),
)
edit(
    "XL-26",
    "All heads use the position vectors of head 0.",
    ("@ r.transpose(-2, -1)", "@ r[:1].transpose(-2, -1)"),
)
edit(
    "XL-27",
    "The axes of r are mixed up by a reshape: heads come first in r, distances second.",
    ("@ r.transpose(-2, -1)", "@ r.reshape(r.size(1), r.size(0), r.size(2)).permute(1, 2, 0)"),
)
edit(
    "XL-28",
    "The distances are query minus key. Column c of r is key minus query, moved up by S-1.",
    (
        "columns = relative_distances(q.size(-2), k.size(-2), device=q.device)",
        "columns = -relative_distances(q.size(-2), k.size(-2), device=q.device).clamp(min=1 - q.size(-2))",
    ),
)
edit(
    "XL-29",
    "Keys after the query are blocked. The exercise asks for the scores before any mask.",
    (
        "return (content + position) / math.sqrt(q.size(-1))",
        "return ((content + position) / math.sqrt(q.size(-1))).masked_fill("
        'relative_distances(q.size(-2), k.size(-2), device=q.device) > 0, float("-inf"))',
    ),
)
edit(
    "XL-30",
    "The softmax is already applied. The exercise asks for scores.",
    (
        "return (content + position) / math.sqrt(q.size(-1))",
        "return F.softmax((content + position) / math.sqrt(q.size(-1)), dim=-1)",
    ),
)
edit(
    "XL-31",
    "The scores are float32 whatever came in.",
    (
        "return (content + position) / math.sqrt(q.size(-1))",
        "return ((content + position) / math.sqrt(q.size(-1))).float()",
    ),
)
edit(
    "XL-32",
    "The columns are made on the CPU. On a GPU they meet tensors of another device.",
    (
        "columns = relative_distances(q.size(-2), k.size(-2), device=q.device) + k.size(-2) - 1",
        "columns = relative_distances(q.size(-2), k.size(-2)) + k.size(-2) - 1",
    ),
)
edit(
    "XL-33",
    "The bias is added to the caller's queries in place.",
    ("content = (q + content_bias.unsqueeze(-2))", "q.data += content_bias.unsqueeze(-2)\n    content = q"),
    ("(q + position_bias.unsqueeze(-2))", "(q - content_bias.unsqueeze(-2) + position_bias.unsqueeze(-2))"),
)
edit(
    "XL-34",
    "The position vectors are detached, so that they can't learn.",
    ("@ r.transpose(-2, -1)", "@ r.detach().transpose(-2, -1)"),
)
edit(
    "XL-35",
    "The position term is missing: only the content term is left.",
    ("return (content + position) /", "return content /"),
)

# -- t5 buckets ------------------------------------------------------------------------------------------------------

edit(
    "T5-01",
    "The distance is taken as query minus key, so before and after are swapped.",
    ("    upper = 0\n", "    upper = 0\n    distance = -distance\n"),
)
edit(
    "T5-02",
    "The upper half is given to keys before the query. It belongs to keys after it.",
    ("upper = (distance > 0)", "upper = (distance < 0)"),
)
edit(
    "T5-02b",
    "Distance 0 falls into the upper half. It belongs to keys after the query only.",
    ("upper = (distance > 0)", "upper = (distance >= 0)"),
)
edit(
    "T5-03",
    "Both directions share their buckets: keys after the query must be moved to the upper half.",
    ("upper = (distance > 0) * num_buckets", "upper = 0"),
)
edit(
    "T5-04",
    "The last bucket has no end: far distances run into numbers that no bucket has.",
    ("far = far.clamp(max=num_buckets - 1)", "far = far"),
)
edit(
    "T5-04b",
    "The buckets end one too late: n - 1 is the last of n buckets.",
    ("far.clamp(max=num_buckets - 1)", "far.clamp(max=num_buckets)"),
)
edit(
    "T5-05",
    "The logarithm is rounded to the nearest bucket. It must be cut down to a whole number.",
    ("(growth * (num_buckets - exact)).long()", "(growth * (num_buckets - exact)).round().long()"),
)
edit(
    "T5-05b",
    "The logarithm is rounded up. It must be cut down to a whole number.",
    ("(growth * (num_buckets - exact)).long()", "(growth * (num_buckets - exact)).ceil().long()"),
)
edit(
    "T5-06",
    "Too few distances have a bucket of their own: half of the direction's buckets are exact.",
    ("exact = num_buckets // 2", "exact = num_buckets // 4"),
)
edit(
    "T5-06b",
    "The exact half is computed from all buckets, before they are shared between the two directions.",
    ("    upper = 0\n", "    upper = 0\n    exact = num_buckets // 2\n"),
    ("    exact = num_buckets // 2\n    growth", "    growth"),
)
edit(
    "T5-07",
    "The buckets are not shared between the directions: each direction has half of them.",
    ("num_buckets = num_buckets // 2", "num_buckets = num_buckets"),
)
edit(
    "T5-07b",
    "One direction uses half of the buckets only. Without a second direction all of them look back.",
    (
        "        steps = (-distance).clamp(min=0)\n",
        "        steps = (-distance).clamp(min=0)\n        num_buckets = num_buckets // 2\n",
    ),
)
edit(
    "T5-08",
    "The argument max_distance is ignored.",
    ("math.log(max_distance / exact)", "math.log(128 / exact)"),
)
edit(
    "T5-08b",
    "The logarithm runs up to num_buckets. It must reach the last bucket at max_distance.",
    ("math.log(max_distance / exact)", "math.log(4 * num_buckets / exact)"),
)
edit(
    "T5-08c",
    "The logarithm of max_distance is not taken relative to the exact part.",
    ("math.log(max_distance / exact)", "math.log(max_distance)"),
)
edit(
    "T5-08d",
    "The logarithm of the distance is not taken relative to the exact part.",
    ("torch.log(steps.clamp(min=1) / exact)", "torch.log(steps.clamp(min=1))"),
)
edit(
    "T5-08e",
    "Two kinds of logarithm are mixed: numerator and denominator need the same base.",
    ("torch.log(steps", "torch.log2(steps"),
)
edit(
    "T5-09",
    "Far distances are only cut off. From the exact part on the buckets grow like a logarithm.",
    ("far = exact + (growth * (num_buckets - exact)).long()", "far = steps"),
)
edit(
    "T5-09b",
    "Far distances are spread evenly over the buckets. They grow like a logarithm.",
    (
        "growth = torch.log(steps.clamp(min=1) / exact) / math.log(max_distance / exact)",
        "growth = (steps - exact) / (max_distance - exact)",
    ),
)
edit(
    "T5-10",
    "With one direction, the keys after the query get the buckets. It is the keys before it that need them.",
    ("steps = (-distance).clamp(min=0)", "steps = distance.clamp(min=0)"),
)
edit(
    "T5-10b",
    "With one direction, the absolute distance is used. Keys after the query all belong into bucket 0.",
    ("steps = (-distance).clamp(min=0)", "steps = distance.abs()"),
)
edit(
    "T5-11",
    "The logarithmic part uses a wrong number of buckets: n - e of them are left.",
    ("(growth * (num_buckets - exact))", "(growth * num_buckets)"),
)
edit(
    "T5-11b",
    "The logarithmic part starts at bucket 0. It comes after the exact part.",
    ("far = exact + (growth", "far = (growth"),
)
edit(
    "T5-11c",
    "The logarithmic part reaches one bucket too few.",
    ("(growth * (num_buckets - exact))", "(growth * (num_buckets - exact - 1))"),
)
edit(
    "T5-20",
    "The argument num_buckets is ignored.",
    ("    upper = 0\n", "    upper = 0\n    num_buckets = 32\n"),
)
edit(
    "T5-21",
    "The argument bidirectional is ignored: both directions are always used.",
    ("    if bidirectional:\n", "    if True:\n"),
)
edit(
    "T5-22",
    "The buckets are floating-point numbers. They become indices of a table.",
    (
        "return torch.where(steps < exact, steps, far) + upper",
        "return torch.where(steps < exact, steps, far).float() + upper",
    ),
)
edit(
    "T5-23",
    "The distances of the caller are changed in place.",
    ("        steps = distance.abs()\n", "        steps = distance.abs_()\n"),
)
edit(
    "T5-23b",
    "The distances of the caller are changed in place.",
    ("steps = (-distance).clamp(min=0)", "steps = distance.neg_().clamp_(min=0)"),
)
edit(
    "T5-24",
    "A tensor is made on the CPU. On a GPU it meets distances of another device.",
    (
        "return torch.where(steps < exact, steps, far) + upper",
        "return torch.where(steps < exact, steps, far) + upper + torch.zeros(distance.shape, dtype=torch.long)",
    ),
)
edit(
    "T5-25",
    "The distance is divided as an integer before the logarithm, which throws its fraction away.",
    ("steps.clamp(min=1) / exact)", "(steps.clamp(min=1) // exact).clamp(min=1))"),
)
edit(
    "T5-26",
    "The exact part ends one distance too early or too late: m < e has a bucket of its own.",
    ("torch.where(steps < exact, steps, far)", "torch.where(steps < exact - 1, steps, far.clamp(min=exact))"),
)
edit(
    "T5-27",
    "The distance is counted from 1 in the logarithm: use m itself.",
    ("torch.log(steps.clamp(min=1) / exact)", "torch.log((steps + 1) / exact)"),
)

# -- t5 bias ---------------------------------------------------------------------------------------------------------

edit(
    "T5-12",
    "The queries start at position 0 also where there are more keys. A single new query stands at the last key.",
    (
        "distances = relative_distances(L, S, device=self.embedding.weight.device)",
        "place = self.embedding.weight.device\n"
        "        distances = torch.arange(S, device=place) - torch.arange(L, device=place)[:, None]",
    ),
)
edit(
    "T5-17",
    "The axes of the bias are mixed up: queries and keys are swapped. The shape is (1, H, L, S).",
    (".permute(2, 0, 1).unsqueeze(0)", ".permute(2, 1, 0).unsqueeze(0)"),
)
edit(
    "T5-17b",
    "The heads stay on the last axis. The shape is (1, H, L, S).",
    (".permute(2, 0, 1).unsqueeze(0)", ".unsqueeze(0)"),
)
edit(
    "T5-17c",
    "The heads are moved by a reshape, which mixes heads and positions. Axes are moved by permute.",
    ("self.embedding(buckets).permute(2, 0, 1).unsqueeze(0)", "self.embedding(buckets).reshape(1, -1, L, S)"),
)
edit(
    "T5-30",
    "The leading axis of size 1 is missing: the shape is (1, H, L, S).",
    (".permute(2, 0, 1).unsqueeze(0)", ".permute(2, 0, 1)"),
)
edit(
    "T5-31",
    "The module does not hand `bidirectional` on to the buckets.",
    ("t5_bucket(distances, self.bidirectional,", "t5_bucket(distances, True,"),
)
edit(
    "T5-31b",
    "The module does not hand `num_buckets` on to the buckets.",
    ("self.num_buckets, self.max_distance)\n", "32, self.max_distance)\n"),
)
edit(
    "T5-31c",
    "The module does not hand `max_distance` on to the buckets.",
    ("self.num_buckets, self.max_distance)\n", "self.num_buckets)\n"),
)
edit(
    "T5-32",
    "The distances are made on the CPU. Ask the table for its device.",
    ("relative_distances(L, S, device=self.embedding.weight.device)", "relative_distances(L, S)"),
)
edit(
    "T5-33",
    "The table does not learn: it needs a gradient.",
    (
        "self.embedding = nn.Embedding(num_buckets, num_heads)",
        "self.embedding = nn.Embedding(num_buckets, num_heads).requires_grad_(False)",
    ),
)
edit(
    "T5-33b",
    "The bias is detached from the table, so that the table can't learn.",
    (".permute(2, 0, 1).unsqueeze(0)", ".permute(2, 0, 1).unsqueeze(0).detach()"),
)
edit(
    "T5-34",
    "The module turns the sign of the distance round: it is key minus query.",
    ("t5_bucket(distances, self", "t5_bucket(-distances, self"),
)
edit(
    "T5-35",
    "The bias is float32 also when the module was moved to another dtype.",
    (".permute(2, 0, 1).unsqueeze(0)", ".permute(2, 0, 1).unsqueeze(0).float()"),
)
edit(
    "T5-36",
    "The table has the heads in its rows. It has a row for each bucket and a column for each head.",
    ("nn.Embedding(num_buckets, num_heads)", "nn.Embedding(num_heads, num_buckets)"),
    ("self.embedding(buckets).permute(2, 0, 1)", "self.embedding.weight[:, buckets]"),
)
edit(
    "T5-37",
    "The number of keys is ignored: the bias is always square.",
    ("distances = relative_distances(L, S, device=self", "distances = relative_distances(L, L, device=self"),
)
edit(
    "T5-38",
    "The bias is a parameter of its own. The exercise asks for an nn.Embedding named `embedding`.",
    (
        "self.embedding = nn.Embedding(num_buckets, num_heads)",
        "self.table = nn.Parameter(torch.randn(num_buckets, num_heads))",
    ),
    (
        "relative_distances(L, S, device=self.embedding.weight.device)",
        "relative_distances(L, S, device=self.table.device)",
    ),
    ("self.embedding(buckets).permute", "self.table[buckets].permute"),
)
edit(
    "T5-39",
    "The module holds parameters beside the table. The buckets need no weights of their own.",
    (
        "        self.embedding = nn.Embedding(num_buckets, num_heads)\n",
        "        self.embedding = nn.Embedding(num_buckets, num_heads)\n"
        "        self.scale = nn.Parameter(torch.ones(()))\n",
    ),
    ("self.embedding(buckets).permute", "(self.scale * self.embedding(buckets)).permute"),
)
edit(
    "T5-40",
    "The bias is kept from an earlier call and sliced, whatever the lengths and the weights are now.",
    (
        "        distances = relative_distances(L, S, device=self.embedding.weight.device)\n",
        "        if hasattr(self, 'kept') and self.kept.size(2) >= L and self.kept.size(3) >= S:\n"
        "            return self.kept[:, :, :L, :S]\n"
        "        distances = relative_distances(L, S, device=self.embedding.weight.device)\n",
    ),
    (
        "        return self.embedding(buckets).permute(2, 0, 1).unsqueeze(0)",
        "        self.kept = self.embedding(buckets).permute(2, 0, 1).unsqueeze(0)\n        return self.kept",
    ),
)

# -- alibi -----------------------------------------------------------------------------------------------------------

edit(
    "AL-04",
    "The first slope is 1: the exponent starts at 0. Head 0 already has the exponent -8/H.",
    ("ratio ** (h + 1) for h in range(power)", "ratio**h for h in range(power)"),
)
edit(
    "AL-05",
    "The slopes halve from head to head, which is right for 8 heads only.",
    ("ratio = 2.0 ** (-8.0 / power)", "ratio = 0.5"),
)
edit(
    "AL-06",
    "The extra heads take the places 1, 3, 5, ... of the longer list, where the first heads already are.",
    ("ratio ** (h + 0.5)", "ratio ** (h + 1)"),
)
edit(
    "AL-06b",
    "The extra heads take the first slopes of the longer list. They take every second one.",
    ("ratio ** (h + 0.5)", "ratio ** ((h + 1) / 2)"),
)


@slip("AL-08", "The slopes are sorted. The extra heads come last, with slopes between those of the first heads.")
def alibi_slopes(num_heads):
    power = 1 << (num_heads.bit_length() - 1)
    slopes = [2.0 ** (-8.0 * (h + 1) / power) for h in range(power)]
    slopes += [2.0 ** (-8.0 * (h + 0.5) / power) for h in range(num_heads - power)]
    return torch.tensor(sorted(slopes, reverse=True))


@slip("AL-09", "8 / H is computed as an integer, which is right only where H divides 8.")
def alibi_slopes(num_heads):
    power = 1 << (num_heads.bit_length() - 1)
    slopes = [2.0 ** -((8 // power) * (h + 1)) for h in range(power)]
    slopes += [2.0 ** -((8 // power) * (h + 0.5)) for h in range(num_heads - power)]
    return torch.tensor(slopes)


@slip("AL-11", "The slopes are one geometric row for every H. Where H is no power of two, two rows are put together.")
def alibi_slopes(num_heads):
    return torch.tensor([2.0 ** (-8.0 * (h + 1) / num_heads) for h in range(num_heads)])


@slip("AL-11b", "The slopes are the first H of the next power of two. They start from the power of two below H.")
def alibi_slopes(num_heads):
    power = 1 << (num_heads - 1).bit_length()
    return torch.tensor([2.0 ** (-8.0 * (h + 1) / power) for h in range(num_heads)])


@slip("AL-11c", "Slopes exist for powers of two only. Other numbers of heads need them, too.")
def alibi_slopes(num_heads):
    if num_heads & (num_heads - 1):
        raise ValueError(f"num_heads={num_heads} is no power of two")
    return torch.tensor([2.0 ** (-8.0 * (h + 1) / num_heads) for h in range(num_heads)])


@slip("AL-11d", "The extra heads come first. The slopes of the power of two below H stand at the front.")
def alibi_slopes(num_heads):
    power = 1 << (num_heads.bit_length() - 1)
    slopes = [2.0 ** (-8.0 * (h + 1) / power) for h in range(power)]
    return torch.tensor([2.0 ** (-8.0 * (h + 0.5) / power) for h in range(num_heads - power)] + slopes)


@slip("AL-11e", "The slopes of the longer list are put in the wrong order: odd places first, then even ones.")
def alibi_slopes(num_heads):
    power = 1 << (num_heads - 1).bit_length()
    slopes = torch.tensor([2.0 ** (-8.0 * (h + 1) / power) for h in range(power)])
    return slopes if power == num_heads else torch.cat([slopes[::2], slopes[1::2]])[:num_heads]


edit(
    "AL-13",
    "All heads have the same slope. Each head needs its own, so that some see near and some see far.",
    ("ratio ** (h + 1) for h in range(power)", "ratio for h in range(power)"),
)
edit(
    "AL-13b",
    "The slopes are in reverse order: head 0 is the steepest.",
    ("ratio ** (h + 1) for h in range(power)", "ratio ** (power - h) for h in range(power)"),
)
edit(
    "AL-15",
    "The slopes are float64. The exercise asks for float32.",
    ("torch.tensor(slopes + between, dtype=torch.float32)", "torch.tensor(slopes + between, dtype=torch.float64)"),
)
edit(
    "AL-15b",
    "The slopes are negative. The minus sign belongs to the bias.",
    ("torch.tensor(slopes + between, dtype=torch.float32)", "-torch.tensor(slopes + between, dtype=torch.float32)"),
)
edit(
    "AL-19",
    "The exponent is e's, not 2's: the slopes are powers of two.",
    ("ratio = 2.0 ** (-8.0 / power)", "ratio = math.exp(-8.0 / power)"),
)
edit(
    "AL-01",
    "The bias rewards distance: its sign must make far keys lose.",
    ("return -slopes * relative_distances(L, S).abs()", "return slopes * relative_distances(L, S).abs()"),
)
edit(
    "AL-02",
    "The signed distance is used, so that keys after the query are rewarded. It is the absolute distance that counts.",
    ("return -slopes * relative_distances(L, S).abs()", "return slopes * relative_distances(L, S)"),
)
edit(
    "AL-02b",
    "The bias grows with the key's position, whatever the query is. Take the distance between the two.",
    (
        "return -slopes * relative_distances(L, S).abs()",
        "return slopes * torch.arange(L if S is None else S).expand(L, -1)",
    ),
)
edit(
    "AL-02c",
    "Keys after the query get no bias. It is the absolute distance that counts.",
    ("return -slopes * relative_distances(L, S).abs()", "return slopes * relative_distances(L, S).clamp(max=0)"),
)
edit(
    "AL-10",
    "The queries start at position 0 also where there are more keys. The last query stands at the last key.",
    (
        "return -slopes * relative_distances(L, S).abs()",
        "return -slopes * (torch.arange(L if S is None else S) - torch.arange(L)[:, None]).abs()",
    ),
)
edit(
    "AL-12",
    "The distances are one too large: a token is at distance 0 from itself.",
    ("return -slopes * relative_distances(L, S).abs()", "return -slopes * (relative_distances(L, S).abs() + 1)"),
)
edit(
    "AL-12b",
    "The bias is measured from the last key for every query. It is the distance from the query that counts.",
    (
        "return -slopes * relative_distances(L, S).abs()",
        "return slopes * (torch.arange(L if S is None else S) - (L if S is None else S) + 1).expand(L, -1)",
    ),
)


@slip("AL-16", "The bias of an earlier call is kept and sliced. With other lengths the distances are wrong.")
def alibi_bias(num_heads, L, S=None, kept={}):
    S = L if S is None else S
    old = kept.get(num_heads)
    if old is None or old.size(1) < L or old.size(2) < S:
        old = -alibi_slopes(num_heads).view(-1, 1, 1) * relative_distances(L, S).abs()
        kept[num_heads] = old
    return old[:, :L, :S]


edit(
    "AL-30",
    "The slopes meet the wrong axis: head h's slope must be the same for all queries and keys of that head.",
    ("slopes = alibi_slopes(num_heads).view(-1, 1, 1)", "slopes = alibi_slopes(num_heads).view(1, -1, 1)"),
)
edit(
    "AL-31",
    "The distance is squared. ALiBi is linear in it.",
    ("return -slopes * relative_distances(L, S).abs()", "return -slopes * relative_distances(L, S) ** 2"),
)
edit(
    "AL-32",
    "The bias has an extra axis in front. The shape is (H, L, S).",
    ("alibi_slopes(num_heads).view(-1, 1, 1)", "alibi_slopes(num_heads).view(1, -1, 1, 1)"),
)
edit(
    "AL-33",
    "Keys after the query are blocked. The bias is no mask.",
    (
        "return -slopes * relative_distances(L, S).abs()",
        'return (-slopes * relative_distances(L, S).abs()).masked_fill(relative_distances(L, S) > 0, float("-inf"))',
    ),
)
edit(
    "AL-34",
    "The bias is cut down to whole numbers.",
    ("return -slopes * relative_distances(L, S).abs()", "return (-slopes * relative_distances(L, S).abs()).long()"),
)
edit(
    "AL-35",
    "The slope and the distance are put together wrongly: the bias is the slope times the distance, not to its power.",
    ("return -slopes * relative_distances(L, S).abs()", "return -(slopes ** relative_distances(L, S).abs())"),
)
edit(
    "AL-36",
    "The argument S is ignored, so that the bias is always square.",
    ("return -slopes * relative_distances(L, S).abs()", "return -slopes * relative_distances(L).abs()"),
)
edit(
    "DV-12",
    "The global random state is changed by a function that needs no random numbers.",
    (
        "    slopes = alibi_slopes(num_heads).view(-1, 1, 1)",
        "    torch.manual_seed(0)\n    slopes = alibi_slopes(num_heads).view(-1, 1, 1)",
    ),
)
