// Products in tiles of 256 x 128 by wgmma, for up to 128 columns.
// What follows is needed for products of u8 and s8.
// PTX ISA 8.4
#include "wgmma.cuh"

typedef Wide<256, 128, 2, 4> TILE;

PLAIN_PRODUCTS(1)
WINDOW_PRODUCTS(1)
