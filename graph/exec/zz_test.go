package exec_test
import ("testing";"context";"time";"fmt";"os";"strconv"
"qwb/graph/exec";"qwb/graph/onnx";"qwb/graph/tensor")
func TestZZBert(t *testing.T){
 m:="/tmp/m/bert.onnx"; if v:=os.Getenv("ZM");v!=""{m=v}
 T,_:=strconv.Atoi(os.Getenv("ZT")); B,_:=strconv.Atoi(os.Getenv("ZB")); if B==0{B=1}
 model,_,err:=onnx.Open(m); if err!=nil{t.Fatal(err)}; defer model.Close()
 g:=model.Graph
 s,err:=exec.New(g,exec.Options{Threads:T}); if err!=nil{t.Fatal(err)}
 feeds:=map[string]*tensor.Tensor{}
 for _,v:=range g.Inputs { val:=g.Value(v); sh:=make([]int,len(val.Shape)); n:=1; for k,d:=range val.Shape { sh[k]=int(d.N); if !d.Known(){ sh[k]=B; if k==1{sh[k]=128} }; n*=sh[k] }
  x:=make([]float32,n); sd:=uint32(1); for i:=range x { sd=sd*1664525+1013904223; x[i]=float32(int32(sd)>>8)/(1<<23) }
  feeds[val.Name]=&tensor.Tensor{DType:tensor.Float32,Shape:sh,Data:x} }
 r:=s.NewRunner(); ctx:=context.Background()
 for range 2 { if _,err:=r.Run(ctx,feeds,nil);err!=nil{t.Fatal(err)} }
 best:=time.Hour; var all time.Duration; n:=0
 for st:=time.Now(); time.Since(st)<4*time.Second||n<4; n++ { t0:=time.Now(); r.Run(ctx,feeds,nil); d:=time.Since(t0); best=min(best,d); all+=d }
 fmt.Printf("%s T %d B %d best ms/img %.2f mean %.2f allocs %.0f\n",m,T,B,best.Seconds()*1e3/float64(B),all.Seconds()*1e3/float64(B)/float64(n),testing.AllocsPerRun(1,func(){r.Run(ctx,feeds,nil)}))
}
