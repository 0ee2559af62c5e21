/*
 * pickles.h - pickles as Python writes them in protocol 2, in pieces.
 */
#ifndef PICKLES_H
#define PICKLES_H

#include "base/buf.h"

/* Literals with their NULs. */
#define PUT(b, text) ((void)buf_add((b), (text), sizeof(text) - 1))

/* A value after the key on the stack: [rows, cols] of bytes, as in Python 2's numpy. */
static inline void
put_array(struct buf *b, uint16_t rows, uint16_t cols, const void *bytes)
{
	uint32_t n = (uint32_t)rows * cols;

	PUT(b, "cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\0\x85U\1b\x87R(K\1M");
	(void)buf_add(b, &rows, 2);
	PUT(b, "M");
	(void)buf_add(b, &cols, 2);
	PUT(b, "\x86"
	       "cnumpy\ndtype\nU\2u1K\0K\1\x87R(K\3U\1|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tb"
	       "\x89T");
	(void)buf_add(b, &n, 4);
	(void)buf_add(b, bytes, n);
	PUT(b, "tb");
}

/* A batch of CIFAR-10: n images and labels. */
static inline void
put_batch(struct buf *b, uint16_t n, const void *images, const uint8_t *labels)
{
	PUT(b, "\x80\2}q\1(U\x0b"
	       "batch_labelq\2U\3oneq\3U\6labelsq\4]q\5(");
	for (uint16_t i = 0; i < n; i++) {
		PUT(b, "K");
		(void)buf_add(b, &labels[i], 1);
	}
	PUT(b, "eU\4dataq\6");
	put_array(b, n, 3072, images);
	PUT(b, "U\tfilenames](U\1aU\1beu.");
}

#endif
