/// Returns the word of `words` that `typed` most likely misspells, or `nil` if none is close enough.
///
/// A word that begins with `typed` is preferred. Otherwise it is the word at the smallest edit distance, if at most a
/// third of its letters differ. Letter case is ignored. A word of yes or no never suggests its opposite, however near that is.
package func spellingSuggestion(for typed: String, in words: [String]) -> String? {
    // The input is untrusted. A longer text is no misspelling of a word.
    guard typed.utf8.count <= 40 else { return nil }
    let typed = typed.lowercased()
    if words.contains("on"), words.contains("off") {
        if affirmations.contains(typed) { return "on" }
        if negations.contains(typed) { return "off" }
    }
    if typed.count >= 2, let longer = words.first(where: { $0.lowercased().hasPrefix(typed) }) { return longer }
    let ranked = words.map { (word: $0, distance: editDistance(typed, $0.lowercased())) }
    guard let best = ranked.min(by: { $0.distance < $1.distance }) else { return nil }
    let allowance = max(1, max(typed.count, best.word.count) / 3)
    return best.distance <= allowance && best.distance < best.word.count ? best.word : nil
}

private let affirmations: Set = ["y", "yes", "enable", "enabled", "always"]
private let negations: Set = ["n", "no", "none", "not", "never", "disable", "disabled"]

/// Returns the number of insertions, deletions, substitutions and swaps of neighbours that turn one word into the other
/// (the optimal string alignment distance).
package func editDistance(_ left: String, _ right: String) -> Int {
    let a = Array(left)
    let b = Array(right)
    var beforeLast: [Int] = []
    var last = Array(0...b.count)
    for i in a.indices {
        var row = [i + 1]
        for j in b.indices {
            var cost = min(last[j + 1] + 1, row[j] + 1, last[j] + (a[i] == b[j] ? 0 : 1))
            if i > 0, j > 0, a[i] == b[j - 1], a[i - 1] == b[j] { cost = min(cost, beforeLast[j - 1] + 1) }
            row.append(cost)
        }
        (beforeLast, last) = (last, row)
    }
    return last[b.count]
}
