//! The order of names with numbers.

/// Sort key of a name in which digits compare as numbers: `n2` before `n10`.
pub fn natural(name: &str) -> Vec<(bool, u64, &str)> {
    name.as_bytes()
        .chunk_by(|a, b| a.is_ascii_digit() == b.is_ascii_digit())
        .map(|part| {
            let text = std::str::from_utf8(part).unwrap_or_default();
            let digits = part[0].is_ascii_digit();
            (!digits, text.parse().unwrap_or(0), text)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::natural;

    #[test]
    fn numbers_in_names_are_numbers() {
        let mut names = ["node66", "node7", "node70", "node8", "a"];
        names.sort_by_key(|n| natural(n));
        assert_eq!(names, ["a", "node7", "node8", "node66", "node70"]);
    }
}
