/// The style of every page: light or dark as the reader's system is, and on paper.
enum HTMLStyle {
    static let text = """
        :root {
          color-scheme: light dark;
          --page: #f7f7f5; --card: #ffffff; --text: #1b1d21; --quiet: #636973; --line: #e2e3e0;
          --first: #2f6fd0; --second: #7fb2f0; --third: #b9a2ea; --fourth: #d9dce2;
          --tail: #cfdff6; --mark: #1b1d21; --better: #1d74c4; --worse: #c8541a; --noise: #a4a9b1;
          --warning: #fdf0dc; --warning-text: #7a4300;
        }
        @media (prefers-color-scheme: dark) {
          :root {
            --page: #15171a; --card: #1d2024; --text: #e7e9ec; --quiet: #9aa1ab; --line: #2e3238;
            --first: #5b9bf3; --second: #2f629f; --third: #8f76c9; --fourth: #4a505a;
            --tail: #2b415f; --mark: #f2f3f5; --better: #5aaef5; --worse: #f0894f; --noise: #6d747e;
            --warning: #3a2a10; --warning-text: #f6cf95;
          }
        }
        * { box-sizing: border-box; }
        body {
          margin: 0 auto; padding: 2.5rem 1.5rem 4rem; max-width: 84rem;
          background: var(--page); color: var(--text);
          font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif;
        }
        h1 { margin: 0; font-size: 1.9rem; font-weight: 650; letter-spacing: -0.02em; line-height: 1.2; }
        header p { margin: 0.3rem 0 1.5rem; color: var(--quiet); font-size: 1.05rem; }
        h2 { margin: 2.5rem 0 0.8rem; font-size: 1.2rem; font-weight: 620; letter-spacing: -0.01em; }
        dl {
          display: grid; grid-template-columns: max-content 1fr; gap: 0.25rem 1.25rem; margin: 0;
          padding: 1rem 1.25rem; background: var(--card); border: 1px solid var(--line); border-radius: 10px;
        }
        dt { color: var(--quiet); }
        dd { margin: 0; overflow-wrap: anywhere; }
        .note { color: var(--quiet); margin: 0.6rem 0; }
        .warning {
          margin: 0 0 0.6rem; padding: 0.6rem 1rem; border-radius: 10px;
          background: var(--warning); color: var(--warning-text); font-weight: 550;
        }
        .charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(25rem, 100%), 1fr)); gap: 1rem; }
        figure {
          margin: 0; padding: 1rem 1.25rem 1.1rem;
          background: var(--card); border: 1px solid var(--line); border-radius: 10px;
        }
        figcaption { font-weight: 600; }
        .legend {
          display: flex; flex-wrap: wrap; gap: 0.1rem 1rem; margin: 0.1rem 0 0;
          color: var(--quiet); font-size: 0.85rem;
        }
        .legend span { display: inline-flex; align-items: center; gap: 0.4rem; }
        .legend i { width: 0.8rem; height: 0.7rem; border-radius: 2px; }
        .legend i.mark { width: 2px; border-radius: 0; }
        .legend i.interval { height: 2px; border-radius: 0; }
        .bars {
          display: grid; grid-template-columns: max-content 1fr max-content; gap: 0.3rem 0.8rem;
          align-items: center; margin-top: 0.7rem; font-size: 0.9rem;
        }
        .bars div { position: relative; height: 1.05rem; overflow: hidden; border-radius: 3px; }
        .bars i { position: absolute; top: 0; bottom: 0; border-radius: 3px; }
        .first { background: var(--first); } .second { background: var(--second); }
        .third { background: var(--third); } .fourth { background: var(--fourth); }
        .tail { background: var(--tail); }
        .better { background: var(--better); } .worse { background: var(--worse); } .noise { background: var(--noise); }
        .mark, .interval { background: var(--mark); }
        .bars .better, .bars .worse, .bars .noise { top: 25%; bottom: 25%; min-width: 3px; }
        .bars .interval { top: 45%; bottom: 45%; min-width: 1px; border-radius: 0; opacity: 0.65; }
        .bars .mark { min-width: 2px; margin-left: -1px; border-radius: 0; }
        .bars .line {
          min-width: 1px; margin-left: -0.5px; background: var(--mark); opacity: 0.5; border-radius: 0;
        }
        .number { text-align: right; font-variant-numeric: tabular-nums; }
        .table { overflow-x: auto; background: var(--card); border: 1px solid var(--line); border-radius: 10px; }
        table { border-collapse: collapse; width: 100%; font-size: 0.9rem; white-space: nowrap; }
        th, td { padding: 0.4rem 0.8rem; text-align: left; }
        th { color: var(--quiet); font-weight: 550; border-bottom: 1px solid var(--line); }
        th.number, td.number { text-align: right; }
        tbody tr + tr td { border-top: 1px solid var(--line); }
        tbody tr:hover td { background: color-mix(in srgb, var(--first) 7%, transparent); }
        .missing { color: var(--quiet); font-style: italic; white-space: normal; }
        .failure td { color: var(--worse); font-weight: 550; }
        pre {
          margin: 0; padding: 1rem 1.25rem; overflow-x: auto; line-height: 1.15; font-size: 0.8rem;
          background: var(--card); border: 1px solid var(--line); border-radius: 10px;
        }
        @media print { body { padding: 0; max-width: none; } figure, dl, .table { break-inside: avoid; } }
        """
}
