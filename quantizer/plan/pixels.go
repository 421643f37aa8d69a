package plan

// Pixels say how a picture, one byte for each pixel and channel, becomes the numbers of an input of a model: as Preprocess has it, without
// resizing and cropping.
type Pixels struct {
	Input string
	// Axis is the axis of the channels in the input's shape, in the order of the model; -1 where all channels have the same numbers.
	Axis int
	// Scale is what a pixel is multiplied with first; Mean and Std have one number, or one for each channel.
	Scale     float32
	Mean, Std []float32
}

// Of is the number of pixel v of channel c, (v*scale - mean) / std, each operation rounded to float32.
func (p *Pixels) Of(v uint8, c int) float32 {
	scaled := float32(float32(v) * p.Scale)
	return float32(scaled-p.Mean[c%len(p.Mean)]) / p.Std[c%len(p.Std)]
}

// Table has the numbers of all pixels, 256 of each channel; of one where all channels have the same.
func (p *Pixels) Table() []float32 {
	var list []float32
	for c := range max(len(p.Mean), len(p.Std)) {
		for v := range 256 {
			list = append(list, p.Of(uint8(v), c))
		}
	}
	return list
}
