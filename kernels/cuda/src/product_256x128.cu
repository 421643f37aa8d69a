// Products in tiles of 256 x 128: eight warps of 64 x 64, one block on a multiprocessor. For what is large.
#include "product.cuh"

typedef Shape<256, 128, 4, 2, 4> TILE;

PRODUCTS(1)
