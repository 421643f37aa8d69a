package advise

import "fmt"

// Saturation is about sums of products that leave the 16 bits that the arithmetic has for them.
var Saturation = &Cause{Name: "saturation",
	Doc: "sums of two products leave 16 bits and are cut off: the integers lose what the simulation does not", find: saturation}

// saturated is the factor of the simulation's error that the integers have to make before that is an illness.
const saturated = 1.5

func saturation(f *Facts) []Finding {
	if f.Integers < saturated {
		return nil
	}
	return []Finding{{Evidence: fmt.Sprintf("the integers of profile %s have %.2g times the error of the simulation, whose sums are exact",
		f.Target.Profile, f.Integers),
		Cures: []Cure{{All: true, Words: []string{"reduce_range=true"}}}}}
}
