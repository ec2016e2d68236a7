// Limits that code sets may be as large as numbers go, and what peers send is compared with sums and products of them.
extension Int {
    /// The sum with `other`, which is not negative; the greatest number where it would be greater.
    func addingSaturated(_ other: Int) -> Int {
        let (sum, overflow) = addingReportingOverflow(other)
        return overflow ? .max : sum
    }

    /// The product with `other`, neither of them negative; the greatest number where it would be greater.
    func multipliedSaturated(_ other: Int) -> Int {
        let (product, overflow) = multipliedReportingOverflow(by: other)
        return overflow ? .max : product
    }
}
