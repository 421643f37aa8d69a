package kernels

import (
	"math"

	"qwb/kernels/ref"
)

// goGroupsRows lists the plain Go rows of products of groups and of combinations.
var goGroupsRows = []Row{
	{Name: "groups8-go-4x16", Op: OpGroups8, ISA: "go", MR: 4, NR: groupLanes, groups: goGroups},
	{Name: "groups4-go-4x16", Op: OpGroups4, ISA: "go", MR: 4, NR: groupLanes, groups: goGroups},
	{Name: "groups-float8-go-1x16", Op: OpGroupsFloat8, ISA: "go", MR: 1, NR: groupLanes, groups: goGroupsFloat},
	{Name: "groups-float4-go-1x16", Op: OpGroupsFloat4, ISA: "go", MR: 1, NR: groupLanes, groups: goGroupsFloat},
	{Name: "quantize-groups-go", Op: OpQuantizeGroups, ISA: "go"},
	{Name: "combine-go", Op: OpCombine, ISA: "go", tile: goCombine},
}

// goGroups reads a panel as package ref would read 16 rows.
func goGroups(t *groupTile) {
	perRow := 2 + t.words*(8/t.bits)
	panel := t.groups * (t.words + 1) * groupLanes
	for p := range t.panels {
		for r := range t.rows {
			var total [groupLanes]float32
			for g := range t.groups {
				group := t.w[p*panel+g*(t.words+1)*groupLanes:][:(t.words+1)*groupLanes]
				in := t.x[g*t.rows*perRow:]
				var sums [groupLanes]int32
				for k := range t.words {
					addWords(&sums, (*[groupLanes]uint32)(group[k*groupLanes:]), in[2*t.rows+r:], k, t.rows, t.bits)
				}
				scale := math.Float32frombits(in[r])
				for l := range sums {
					if t.sums != nil {
						t.sums[(g*t.rows+r)*groupLanes+l] = sums[l]
					}
					w := math.Float32frombits(group[t.words*groupLanes+l])
					total[l] += float32(float32(float32(sums[l])*w) * scale)
				}
			}
			copy(t.dst[r*t.ldd+p*groupLanes:], total[:])
		}
	}
}

// addWords adds the products of word k of 16 rows with the codes that belong to it, the words of which are rows apart.
func addWords(sums *[groupLanes]int32, words *[groupLanes]uint32, x []uint32, k, rows, bits int) {
	if bits == 8 {
		a := x[k*rows]
		x0, x1, x2, x3 := int32(int8(a)), int32(int8(a>>8)), int32(int8(a>>16)), int32(int8(a>>24))
		for l, w := range words {
			w ^= 0x80808080
			sums[l] += int32(int8(w))*x0 + int32(int8(w>>8))*x1 + int32(int8(w>>16))*x2 + int32(int8(w>>24))*x3
		}
		return
	}
	for half := range 2 {
		a := x[(2*k+half)*rows]
		x0, x1, x2, x3 := int32(int8(a)), int32(int8(a>>8)), int32(int8(a>>16)), int32(int8(a>>24))
		for l, w := range words {
			w >>= 4 * half
			sums[l] += (int32(w&15)-8)*x0 + (int32(w>>8&15)-8)*x1 + (int32(w>>16&15)-8)*x2 + (int32(w>>24&15)-8)*x3
		}
	}
}

// goGroupsFloat multiplies one row of floats.
func goGroupsFloat(t *groupTile) {
	panel := t.groups * (t.words + 1) * groupLanes
	perWord := 32 / t.bits
	for p := range t.panels {
		var total [groupLanes]float32
		for g := range t.groups {
			group := t.w[p*panel+g*(t.words+1)*groupLanes:][:(t.words+1)*groupLanes]
			x := t.x[g*t.words*perWord:][:t.words*perWord]
			for l := range total {
				var chains [ref.GroupChains]float32
				for k, bits := range x {
					code := unpackCode(group[k/perWord*groupLanes+l], k%perWord, t.bits)
					chains[k%ref.GroupChains] += float32(float32(code) * math.Float32frombits(bits))
				}
				w := math.Float32frombits(group[t.words*groupLanes+l])
				total[l] += float32(((chains[0] + chains[1]) + (chains[2] + chains[3])) * w)
			}
		}
		copy(t.dst[p*groupLanes:], total[:])
	}
}
