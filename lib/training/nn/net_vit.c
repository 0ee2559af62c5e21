/*
 * net_vit.c - a vision transformer: pictures as rows of patches, and blocks of attention and dense layers on them.
 *
 * A block normalises before its layers: x + proj(attention(qkv(ln1(x)))), then x + fc2(gelu(fc1(ln2(x)))). The last
 * norm comes after the class token was picked, which gives the same numbers as before it.
 *
 * Source: Dosovitskiy et al., arXiv:2010.11929
 */
#include <stdio.h>

#include "nn/net_impl.h"

/* "1, 2, 4": the divisors of a and b that are at most `most`, as many as there is room for. */
static const char *
divisors(uint32_t a, uint32_t b, uint32_t most, char out[128])
{
	size_t at = 0;

	for (uint32_t d = 1; d <= a && d <= most && at < 100; d++)
		if (a % d == 0 && b % d == 0)
			at += (size_t)snprintf(out + at, 128 - at, "%s%u", at ? ", " : "", d);
	return out;
}

/* Check sizes against the input and each other. */
static enum rc
check(const struct net_vit *v, struct net_shape in, struct err *err)
{
	char list[128];

	if (v->blocks > NET_MAX_BLOCKS || v->hidden > NET_MAX_HIDDEN)
		return err_set(err, RC_INVAL, "a vit has at most %d blocks and a hidden size of %d",
			       NET_MAX_BLOCKS, NET_MAX_HIDDEN);
	if (v->hidden % v->heads)
		return err_set(
		    err, RC_INVAL, "%u heads do not divide the hidden size %u: heads may be %s",
		    v->heads, v->hidden, divisors(v->hidden, v->hidden, v->hidden, list));
	if (v->hidden / v->heads > NET_MAX_HEAD)
		return err_set(err, RC_INVAL,
			       "%u heads of the hidden size %u: a head has at most %d features",
			       v->heads, v->hidden, NET_MAX_HEAD);
	if (in.rows % v->patch || in.cols % v->patch)
		return err_set(err, RC_INVAL,
			       "patches of %ux%u do not divide items of %ux%u: patch may be %s",
			       v->patch, v->patch, in.rows, in.cols,
			       divisors(in.rows, in.cols, in.rows, list));
	if ((uint64_t)(in.rows / v->patch) * (in.cols / v->patch) >= NET_MAX_TOKENS)
		return err_set(err, RC_INVAL,
			       "patches of %ux%u: items of %ux%u are more than %d tokens", v->patch,
			       v->patch, in.rows, in.cols, NET_MAX_TOKENS - 1);
	return RC_OK;
}

/* Patches, their dense layer, the class token and positions. */
static uint32_t
embed(struct net_builder *b, const struct net_vit *v)
{
	struct net_shape in = b->net.input;
	struct net_node patches = {.kind = NET_PATCHES,
				   .in = {NET_INPUT, NET_INPUT},
				   .shape = {in.channels * v->patch * v->patch, 1, 1},
				   .tokens = in.rows / v->patch * (in.cols / v->patch),
				   .size = v->patch,
				   .name = "patches"};
	struct net_node tokens = {.kind = NET_TOKENS,
				  .shape = {v->hidden, 1, 1},
				  .tokens = patches.tokens + 1,
				  .name = "tokens"};

	tokens.in[0] = net_dense(b, "patch", net_append(b, &patches), v->hidden, NET_LINEAR);
	tokens.in[1] = NET_INPUT;
	net_own(&b->net, &tokens, v->hidden, (uint64_t)tokens.tokens * v->hidden);
	return net_append(b, &tokens);
}

static uint32_t
attention(struct net_builder *b, const char *name, uint32_t qkv, const struct net_vit *v)
{
	struct net_node node = {.kind = NET_ATTENTION,
				.in = {qkv, NET_INPUT},
				.shape = {v->hidden, 1, 1},
				.heads = v->heads};

	snprintf(node.name, sizeof node.name, "%.23s", name);
	return net_append(b, &node);
}

/* The name of a block's layer, until the next call. */
static const char *
layer(char name[32], uint32_t block, const char *what)
{
	snprintf(name, 32, "block%u.%s", block, what);
	return name;
}

static uint32_t
block(struct net_builder *b, uint32_t i, uint32_t in, const struct net_vit *v)
{
	char name[32];
	uint32_t at, mid;

	net_cut(b);
	at = net_layernorm(b, layer(name, i, "ln1"), in, NET_LINEAR);
	at = net_dense(b, layer(name, i, "qkv"), at, 3 * v->hidden, NET_LINEAR);
	at = attention(b, layer(name, i, "attention"), at, v);
	at = net_dense(b, layer(name, i, "proj"), at, v->hidden, NET_LINEAR);
	mid = net_add(b, in, at);
	at = net_layernorm(b, layer(name, i, "ln2"), mid, NET_LINEAR);
	at = net_dense(b, layer(name, i, "fc1"), at, 4 * v->hidden, NET_GELU);
	at = net_dense(b, layer(name, i, "fc2"), at, v->hidden, NET_LINEAR);
	return net_add(b, mid, at);
}

void
net_vit_append(struct net_builder *b, const struct net_vit *request, uint32_t nclasses)
{
	const struct net_vit v = {
	    request->blocks ? request->blocks : 4, request->hidden ? request->hidden : 64,
	    request->heads ? request->heads : 4, request->patch ? request->patch : 7};
	struct net_node pick = {
	    .kind = NET_PICK, .shape = {v.hidden, 1, 1}, .tokens = 1, .name = "pick"};
	uint32_t at;

	b->net.vit = v;
	b->rc = check(&v, b->net.input, b->err);
	if (b->rc != RC_OK)
		return;
	net_cut(b);
	at = embed(b, &v);
	for (uint32_t i = 0; i < v.blocks; i++)
		at = block(b, i, at, &v);
	net_cut(b);
	pick.in[0] = at;
	pick.in[1] = NET_INPUT;
	at = net_layernorm(b, "ln", net_append(b, &pick), NET_LINEAR);
	net_dense(b, "head", at, nclasses, NET_LINEAR);
}
