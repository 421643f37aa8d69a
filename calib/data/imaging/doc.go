// Package imaging turns image files into 8-bit pixels and scales them, with the results of Pillow, on which the accuracies
// that models are published with rest: its conversions to RGB and to luma, its antialiased resampling in fixed point, and
// the chroma upsampling and colour conversion of the libraries it decodes with (libjpeg-turbo, libwebp).
//
// It knows nothing of tensors and models. EXIF orientation is ignored, as Pillow's Image.open does.
//
// Unstable: it may change without notice.
package imaging
