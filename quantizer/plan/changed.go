package plan

import "reflect"

// Changed lists the operators of b of which a, another plan of the model, says other things, in the order of b; never nil.
func Changed(a, b *Plan) []string {
	was := map[string]*Node{}
	for i := range a.Nodes {
		was[a.Nodes[i].Name] = &a.Nodes[i]
	}
	list := []string{}
	for i := range b.Nodes {
		n := &b.Nodes[i]
		same := was[n.Name] != nil && reflect.DeepEqual(was[n.Name], n)
		for _, s := range n.Slots { // names of schemes are of one file
			same = same && reflect.DeepEqual(a.Schemes[s.Scheme], b.Schemes[s.Scheme])
		}
		if !same {
			list = append(list, n.Name)
		}
	}
	return list
}
