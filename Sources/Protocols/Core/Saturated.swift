// Configured limits may be as large as `Int.max`, and sizes that peers send are compared with sums and products of
// limits.
extension Int {
    /// Returns the sum with `other`, which is not negative, or `Int.max` if the sum is greater than that.
    func addingSaturated(_ other: Int) -> Int {
        let (sum, overflow) = addingReportingOverflow(other)
        return overflow ? .max : sum
    }

    /// Returns the product with `other`, or `Int.max` if the product is greater than that. Neither factor is negative.
    func multipliedSaturated(_ other: Int) -> Int {
        let (product, overflow) = multipliedReportingOverflow(by: other)
        return overflow ? .max : product
    }
}
