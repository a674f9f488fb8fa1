"""What a step would take on more ranks: pure functions of measured parts and of links' bandwidths.

`estimates` holds numbers with their bounds, `topology` machines and links, `network` the seconds of a
collective, `sendings` what each sharding sends, `steps` the seconds of a step, `memory` what a rank holds,
`tables` the columns of files. What they give is predicted,
never measured; it is kept in files of its own, and reports do not draw it like what was measured.
"""
