package analysis

// SampleParts says of single samples what they lose, and in which part of the outputs: what counts depends on all samples, so that they are
// added first.
type SampleParts struct {
	Judge  *Judge
	tally  tally
	losses Losses
}

// SampleLoss is what one sample loses.
type SampleLoss struct {
	NSR float64 // the largest over outputs and parts that count; of a part its error over the mean square of the part in all samples
	// Part is the part that it is of; empty for a whole output.
	Part string
}

// Add adds a sample by its quantized run and the float one. Values that are not finite are an error.
func (p *SampleParts) Add(q, f *Verdict) error {
	losses, err := p.Judge.Losses(q, f)
	if err != nil {
		return err
	}
	sums, err := p.Judge.sums(q.outputs, f.outputs, false)
	if err != nil {
		return err
	}
	p.Judge.reaches(sums, f)
	p.tally.add(len(p.losses), sums)
	p.losses = append(p.losses, losses)
	return nil
}

// Losses are those of all samples, in their order.
func (p *SampleParts) Losses() []SampleLoss {
	weights := p.Judge.weigh(&p.tally)
	list := make([]SampleLoss, len(p.losses))
	for k, losses := range p.losses {
		for i, x := range weights.row(k, losses, func(i int) float64 { return p.tally.noise[k][i] }) {
			if x <= list[k].NSR {
				continue
			}
			if list[k].NSR = x; i < len(losses) {
				list[k].Part = ""
			} else {
				list[k].Part = p.Judge.slices[i-len(losses)].Name
			}
		}
	}
	return list
}
