// What the modules of the page hand to each other, as far as it is worth saying; types.d.ts, which is generated, has what the core says.

type Row = ReturnType<typeof import("./data.js").rowsOf>[number];
type Selected = ReturnType<typeof import("./selection.js").newSelection>;

interface Client {
  kind: string;
  call<M extends keyof Core.Methods>(
    method: M,
    params?: Core.Methods[M]["params"],
    more?: { revision?: string; signal?: AbortSignal },
  ): Promise<Core.Methods[M]["result"]>;
  on(type: string, fn: (event: any) => void): () => void;
  upload(name: string, blob: Blob): Promise<{ path: string }>;
  download(file: string): Promise<Blob>;
  // Of the page without a server alone.
  result?(): Promise<Core.View | null>;
  demo?(): Promise<{ model: string; data: string; platform: string; eval: string; labels: string }>;
  unsaved?(): Promise<string[]>;
}

interface App {
  client: Client;
  selection: Selected;
  state: Core.State;
  view: Core.View;
  rows: Row[];
  loss: Core.Jobs["language-eval"]["result"] | null; // of the checkpoint that is open
  judged(r: App["loss"]): void;
  report: { file: string; note?: HTMLElement; draw(main: HTMLElement): void } | null;
  say(text: string, bad?: boolean): void;
  unsay(text: string): void;
  running(kind: string): boolean;
  exported(): boolean;
  paned(key: string, first?: boolean): void;
  command(line: string): void;
  run<K extends keyof Core.Jobs>(kind: K, options?: Core.Jobs[K]["options"]): Promise<Core.Jobs[K]["result"]>;
  change<M extends "set" | "unset" | "undo" | "redo">(method: M, params?: Core.Methods[M]["params"]): Promise<Core.Changed>;
  reload: (() => Promise<void>) & { running(): Promise<void> | null };
  go(key: string): void;
  present(report: App["report"]): void;
  on(fn: () => void): () => void;
}

// Shown is what a report has of an app too: to select an operator and to say which there are.
type Shown = Pick<App, "rows" | "selection"> & Partial<Pick<App, "go">>;

// A view of the page: it draws itself, or is a pane of another one (app.js).
interface View {
  key: string;
  label: string;
  doc: string;
  of?: string;
  usable?(app: App): boolean;
  draw?(host: HTMLElement, app: App): any;
}

// How the plan stands, and what to do next (stateline.js).
interface Standing {
  text: string;
  label?: string;
  act?(): void;
  doc?: string;
  quiet?: boolean;
  warn?: boolean;
  bad?: boolean;
}

// A figure of a verdict (verdict.js).
interface Figure {
  key: string;
  what: string;
  doc: string;
  figure?: string;
  note?: string;
  title?: string;
  none?: string;
  stale?: boolean;
  work?: Core.Work[];
}

// A column of a table of results; cell, sort and title are of a row.
interface Column<R> {
  label: string;
  doc?: string;
  number?: boolean;
  cell(row: R): any;
  sort?(row: R): any;
  title?(row: R): any;
}

interface Grid<R> {
  caption: string;
  columns: Column<R>[];
  rows: R[];
  pick?(row: R): any;
  pickDoc?: string;
  limit?: number;
  mark?(row: R): string;
}

interface Task<K extends keyof Core.Jobs> {
  label: string;
  kind: K;
  only?: string;
  doc?: string;
  options?(): Core.Jobs[K]["options"];
  show(result: Core.Jobs[K]["result"]): void;
  into?: HTMLElement;
  cost?(done: Core.Job[]): string;
  fold?: boolean;
  result?: boolean;
  most?: number;
}

// How a job stands, as a view shows it (job_state.js).
interface JobState {
  at: "idle" | "asked" | "waiting" | "running" | "done" | "stopped" | "refused"; // asked: started here and not heard of yet
  job: Core.Job | null; // that was heard of last
  mine: boolean; // it was started here, so whoever did is told how it ends
  shown: Core.Job | null; // the job whose result is drawn
  problem: Partial<Error> | null; // why it was refused, or what did not hold although there is a result
  plan: string; // what the plan that is open is, as State.of has it
}

type JobEvent =
  | { type: "ask" | "result" }
  | { type: "job" | "found"; job: Core.Job }
  | { type: "fault"; problem: Partial<Error>; drawn: boolean }
  | { type: "plan"; of: string };

// What went wrong, as the core says it; status where a server answered, result where there is one all the same.
interface Error extends Partial<Core.Fault> {
  status?: number;
  revision?: string;
  result?: any;
}
