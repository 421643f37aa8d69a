// Products in tiles of 128 x 256 by wgmma, for more than 128 columns.
// What follows is needed for products of u8 and s8.
// PTX ISA 8.4
#include "wgmma.cuh"

typedef Wide<128, 256, 2, 4> TILE;

PLAIN_PRODUCTS(1)
WINDOW_PRODUCTS(1)
